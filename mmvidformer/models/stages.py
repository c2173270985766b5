"""Parts of a ``VideoTransformer`` by depth, and those that are not trained."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from mmvidformer.errors import UserError
from mmvidformer.layers.adapter import Adapter


def find_stages(backbone: Any) -> list[nn.ModuleList]:
    """Find the parts by depth, for freezing and for learning rates that decay with it.

    Embedding, positions and class token; each block of each encoder; the last norm. What lies
    between two encoders belongs to the last block of the first.
    """
    stages = [nn.ModuleList([backbone.embed])]
    for encoder in backbone.encoders:
        parameters = (encoder.cls_token, encoder.registers, encoder.frame_token)
        tokens = [x for x in parameters if x is not None]
        start = (encoder.proj, encoder.pos_embed, encoder.pos_drop, encoder.norm_pre)
        stages[-1].extend([*start, nn.ParameterList(tokens)])
        stages += [nn.ModuleList([block]) for block in encoder.blocks]
        stages[-1].extend([encoder.layer_norms, encoder.norm])
    norms = nn.ModuleList([stages[-1][-1], backbone.fc_norm])
    return [*stages[:-1], stages[-1][:-1], norms]


def freeze(backbone: Any, clip_len: int, trains_lora: bool) -> None:
    """Freeze what is not trained, in place: stages, what the loss does not reach, all but adapters.

    Args:
        backbone: The ``VideoTransformer``.
        clip_len: Number of frames of its clips.
        trains_lora: Whether low-rank updates are added afterwards. With them, or with adapters, all
            else is frozen if ``frozen_stages`` is -1.
    """
    for stage in find_frozen(backbone):
        stage.requires_grad_(False)
    adapters = [part for part in backbone.modules() if isinstance(part, Adapter)]
    if backbone.frozen_stages == -1 and (adapters or trains_lora):
        backbone.requires_grad_(False)
    for adapter in adapters:
        adapter.requires_grad_(True)
    for unread in _find_unread(backbone, clip_len):
        unread.requires_grad_(False)


def find_frozen(backbone: Any) -> list[nn.ModuleList]:
    """Find the stages that are frozen, the first ``frozen_stages`` blocks or all of the model.

    Raises:
        UserError: If there are fewer blocks.
    """
    stages = find_stages(backbone)
    depth = len(stages) - 2
    if not -1 <= backbone.frozen_stages <= depth:
        raise UserError(f"frozen_stages must be -1 to {depth}, got {backbone.frozen_stages}")
    return stages if backbone.frozen_stages == depth else stages[: backbone.frozen_stages + 1]


def _find_unread(backbone: Any, clip_len: int) -> Iterator[nn.Module]:
    """Yield parts that the loss of clips does not reach; several processes need to know them.

    They are the norms of other outputs than the last, the convolutions of an adapter that class
    tokens alone are read after, and what the stem names.
    """
    for encoder in backbone.encoders:
        yield encoder.layer_norms
        adapter = encoder.blocks[-1].adapter
        if adapter is not None and not encoder.passes_grid:
            yield from (adapter.dwconv, adapter.conv)
    yield from backbone.embed.unread(clip_len)

"""What a converted ViViT looks like: the arguments that build its backbone."""

import math
from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.keymap import Conversion


def count_blocks(state: Mapping[str, Tensor], encoder: str) -> int:
    """Count the blocks of an encoder, given as its full name."""
    stem = f"{encoder}.blocks."
    return len({name.removeprefix(stem).split(".")[0] for name in state if name.startswith(stem)})


def vivit_settings(result: Conversion) -> dict:
    """Read the arguments of ``ViViT`` off converted weights.

    A model that encodes single frames and averages them does not tell its clip length; one
    tubelet is given.

    Args:
        result: Result of a converter.

    Returns:
        ``arch`` (without ``num_heads`` where that is not known), ``scheme``, ``img_size``,
        ``clip_len``, ``tubelet``, ``temporal_depth`` and ``pool``; for an image model without
        ``scheme``.

    Raises:
        ValueError: If the weights are those of another model.
    """
    state = result.state
    for name in ("backbone.embed.proj.weight", "backbone.encoder.pos_embed.thw"):
        if name not in state:
            raise ValueError(f"these are no weights of a ViViT: {name} is missing")
    dim, _, *tubelet = state["backbone.embed.proj.weight"].shape
    table = state["backbone.encoder.pos_embed.thw"]
    frames, rows, columns = table.shape[1:4]
    times = state.get("backbone.temporal_encoder.pos_embed.thw")
    frames = frames if times is None else times.shape[1]
    hidden = state["backbone.encoder.blocks.0.mlp.fc1.weight"].shape[0]
    ratio = hidden / dim
    if int(dim * ratio) != hidden:  # the quotient was rounded down
        ratio = math.nextafter(ratio, math.inf)
    heads = {} if result.num_heads is None else {"num_heads": result.num_heads}
    scheme = {} if result.scheme is None else {"scheme": result.scheme}
    return dict(
        arch=dict(
            embed_dims=dim, depth=count_blocks(state, "backbone.encoder"), mlp_ratio=ratio, **heads
        ),
        **scheme,
        img_size=(rows * tubelet[1], columns * tubelet[2]),
        clip_len=frames * tubelet[0],
        tubelet=tuple(tubelet),
        temporal_depth=count_blocks(state, "backbone.temporal_encoder"),
        pool="cls" if "backbone.encoder.cls_token" in state else "mean",
    )

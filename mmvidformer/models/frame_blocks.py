"""Which frames of a clip a model encodes on their own."""

from math import lcm
from typing import Any, cast

from torch import nn

from mmvidformer.layers import Attention, Encoder, TubeletEmbedding
from mmvidformer.layers.kernels import SoftmaxKernel
from mmvidformer.layers.shift import Shift


def frame_stage(embed: TubeletEmbedding, encoder: Any) -> list[tuple[nn.Module, str, int, int]]:
    """Return the parts of a model that see blocks of frames on their own; none, if there are none.

    For each the name of its method, the axis of time of its input, and the size of the blocks.
    """
    block = frame_block(encoder) if embed.separate_frames else None
    if block is None:
        return []
    return [(embed, "forward", 2, embed.tubelet[0]), (encoder, "run_blocks", 1, block)]


def frame_block(encoder: Encoder) -> int | None:
    """Return the number of frames of the blocks of a clip that are encoded on their own, if any.

    Tokens of a block see no others, and depend on their place in the block alone.
    """
    if encoder.single_frames:
        return 1
    attentions = [part for part in encoder.modules() if isinstance(part, Attention)]
    parts: list[Any] = [pattern for attention in attentions for pattern in attention.patterns]
    parts += [part for part in encoder.modules() if isinstance(part, Shift)]
    blocks, positions = [part.frame_block for part in parts], cast(Any, encoder.pos_embed)
    axes = "".join(getattr(positions, "tables", "t"))  # of one's own positions: any
    softmax = all(isinstance(attention.kernel, SoftmaxKernel) for attention in attentions)
    if encoder.rope is not None and not (softmax and encoder.rope.pairs != "tiled"):
        axes += encoder.rope.axes  # otherwise scores depend on distances alone
    if encoder.cls_token is not None or "t" in axes or None in blocks:
        return None
    frames, block = positions.size[0], lcm(*blocks)
    return block if block < frames and frames % block == 0 else None

"""TRecViT (Pătrăucean et al. 2024): Google DeepMind's flax files to this package's names.

A gated linear recurrence over time at each place, attention within each frame, and an MLP. Each
frame has a token of its own, which the recurrence joins over time, too.
"""

import re
from collections.abc import Mapping

from torch import Tensor

from mmvidformer.checkpoints.backbones import ENCODER
from mmvidformer.checkpoints.flax import read_flax
from mmvidformer.checkpoints.keymap import (
    Conversion,
    Grid,
    Op,
    apply_rules,
    grid_of,
    has,
    key_map,
)

KERNEL = f"{ENCODER}.blocks.{{i}}.sublayers.causal_time.attn.kernel"
# The norms before the recurrence store their weights less one.
ADD_ONE = Op(lambda weight: (weight + 1,), lambda weight: (weight - 1,))
FRAME_TOKEN = Op(lambda token: (token[None],), lambda token: (token[0],))


def is_trecvit(state: Mapping[str, Tensor]) -> bool:
    """Whether the names are those of TRecViT."""
    return has(state, r"residualblock_0+/recurrent_block/rg_lru/a_param$")


def from_trecvit(state: Mapping[str, Tensor], grid: Grid | None = None) -> Conversion:
    """Convert a TRecViT with or without its classifier; other decoders are ignored.

    Args:
        state: Weights.
        grid: Tokens (T, H, W) of the position table, if frames are not square.

    Raises:
        ValueError: If names do not fit.
    """
    state, num_heads = read_flax(state)
    state = {re.sub("residualblock_0*(?=[0-9])", "residualblock_", n): x for n, x in state.items()}
    heads = num_heads or 1

    def split_positions(table: Tensor) -> tuple[Tensor, ...]:
        return (table.unflatten(1, grid_of(table.shape[1], grid)),)

    by_head = Op(lambda x: (x.unflatten(-1, (heads, -1)),), lambda x: (x.flatten(-2),))
    ops = {
        f"{ENCODER}.frame_token": FRAME_TOKEN,
        f"{ENCODER}.pos_embed.hw": Op(split_positions, lambda x: (x.flatten(1, 3),)),
        f"{ENCODER}.blocks.{{i}}.sublayers.causal_time.norm.weight": ADD_ONE,
        f"{KERNEL}.conv_weight": by_head,
        f"{KERNEL}.conv_bias": by_head,
        f"{KERNEL}.decay": by_head,
    }
    classifies = has(state, "^decoder/cls_head/")
    sections = ("model", "head") if classifies else ("model",)
    ignored = () if classifies else (r"decoder/.*",)
    result = apply_rules(state, key_map("trecvit", *sections, ops=ops), ignored)
    result.model, result.scheme, result.num_heads = "VideoTransformer", "trecvit", num_heads
    shapes = {name: x.shape for name, x in result.state.items()}
    first = f"{ENCODER}.blocks.0.sublayers.causal_time.attn"
    width, inner = shapes[f"{first}.proj.weight"]
    recurrence = dict(
        type="recurrence", expand=inner // width, width=shapes[f"{first}.kernel.conv_weight"][0]
    )
    _, _, *sides = shapes["backbone.embed.proj.weight"][1:]
    _, _, rows, columns, _ = shapes[f"{ENCODER}.pos_embed.hw"]
    result.settings = dict(
        img_size=(rows * sides[0], columns * sides[1]),
        block=[
            dict(pattern="causal_time", kernel=recurrence, norm="rms"),
            dict(pattern="space"),
        ],
        positions="space",
        frames="token" if f"{ENCODER}.frame_token" in shapes else "together",
        mlp=dict(type="mlp", act="gelu_tanh"),
        init="flax",
        pool="none",
    )
    if "cls_head.fc_hidden.weight" in shapes:
        result.head = dict(hidden_dim=shapes["cls_head.fc_hidden.weight"][0], act="tanh")
    return result

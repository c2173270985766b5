"""TRecViT (Pătrăucean et al. 2024): Google DeepMind's flax files, in both directions.

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
    Rule,
    State,
    apply_rules,
    has,
    key_map,
    revert,
)
from mmvidformer.checkpoints.operations import ADD_ONE, Grid, Op, positions
from mmvidformer.errors import UserError

KERNEL = f"{ENCODER}.blocks.{{i}}.sublayers.causal_time.attn.kernel"
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
        UserError: If names do not fit.
    """
    state, num_heads = read_flax(state)
    state = {re.sub("residualblock_0*(?=[0-9])", "residualblock_", n): x for n, x in state.items()}
    classifies = has(state, "^decoder/cls_head/")
    ignored = () if classifies else (r"decoder/.*",)
    rules = trecvit_rules(num_heads or 1, classifies, grid)
    result = apply_rules(state, rules, ignored)
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
        block=[dict(pattern="causal_time", kernel=recurrence, norm="rms"), dict(pattern="space")],
        positions="space",
        frames="token" if f"{ENCODER}.frame_token" in shapes else "together",
        mlp=dict(type="mlp", act="gelu_tanh"),
        init="flax",
        pool="none",
    )
    if "cls_head.fc_hidden.weight" in shapes:
        result.head = dict(hidden_dim=shapes["cls_head.fc_hidden.weight"][0], act="tanh")
    return result


def to_trecvit(state: Mapping[str, Tensor]) -> State:
    """Convert back, to the names and axes of the authors' ``.npz`` files.

    Raises:
        UserError: If names do not fit.
    """
    kernel = KERNEL.replace("{i}", "0") + ".conv_weight"
    if kernel not in state:
        raise UserError(f"the weights are not those of a TRecViT: {kernel} is missing")
    heads = state[kernel].shape[1]
    back = revert(state, trecvit_rules(heads, has(state, r"^cls_head\.")))
    named = {re.sub(r"(?<=residualblock_)(\d)(?=/)", r"0\1", n): x for n, x in back.items()}
    return {name: _their_axes(name, x, heads).contiguous() for name, x in named.items()}


def trecvit_rules(heads: int, classifies: bool, grid: Grid | None = None) -> list[Rule]:
    """Return the rows of a model with some heads, with or without its classifier."""
    by_head = Op(lambda x: (x.unflatten(-1, (heads, -1)),), lambda x: (x.flatten(-2),))
    ops = {
        f"{ENCODER}.frame_token": FRAME_TOKEN,
        f"{ENCODER}.pos_embed.hw": positions(grid, cls=False, slot=False),
        f"{ENCODER}.blocks.{{i}}.sublayers.causal_time.norm.weight": ADD_ONE,
        f"{KERNEL}.conv_weight": by_head,
        f"{KERNEL}.conv_bias": by_head,
        f"{KERNEL}.decay": by_head,
    }
    sections = ("model", "head") if classifies else ("model",)
    return key_map("trecvit", *sections, ops=ops)


def _their_axes(name: str, x: Tensor, heads: int) -> Tensor:
    """Return a weight with flax's axes; of attention, with one for the heads."""
    of_heads = "MultiHeadDotProductAttention" in name
    if name.endswith("/bias"):
        return x.unflatten(0, (heads, -1)) if of_heads and "/out/" not in name else x
    if not name.endswith("/kernel"):
        return x
    if x.dim() == 5:  # (D, C, t, h, w)
        return x.permute(2, 3, 4, 1, 0)
    if not of_heads:
        return x.T
    return x.T.unflatten(0 if "/out/" in name else 1, (heads, -1))

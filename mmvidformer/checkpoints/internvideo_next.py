"""InternVideo-Next (Wang et al., CVPR 2026), the names of its code, in both directions.

Blocks have RMS norms, also of queries and keys over all heads, and LayerScale. There are norms
around the projection of pixels and none of the output, and first tokens with places in the table of
positions. Those of all but the first are added to the tokens.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from mmvidformer.checkpoints.backbones import ENCODER, HEADS
from mmvidformer.checkpoints.keymap import (
    Conversion,
    Rule,
    apply_rules,
    has,
    key_map,
    strip_prefixes,
)
from mmvidformer.checkpoints.operations import Grid, Op, grid_of

CLIP: Grid = (16, 224, 224)  # of the published weights
POOLING_HEADS = 16


def is_internvideo_next(state: Mapping[str, Tensor]) -> bool:
    """Whether the names are those of InternVideo-Next's encoder."""
    return has(state, r"patch_embed\.norm_before\.weight$", r"attn\.q_norm\.weight$", r"pos_embed$")


def from_internvideo_next(state: Mapping[str, Tensor], grid: Grid | None = None) -> Conversion:
    """Convert the encoder, and the attentive pooling if there is one.

    Args:
        state: Weights.
        grid: Tokens (T, H, W) of the position table. Default: those of 16 frames of 224 x 224.

    Raises:
        UserError: If names or the table of positions do not fit.
    """
    state = strip_prefixes(state)
    result = apply_rules(state, internvideo_next_rules(state, grid))
    result.model, result.scheme = "VideoTransformer", "internvideo_next"
    width, _, frames, rows, columns = result.state["backbone.embed.proj.weight"].shape
    result.num_heads = HEADS.get(width)
    _, t, h, w, _ = result.state[f"{ENCODER}.pos_embed.thw"].shape
    result.settings = dict(
        clip_len=t * frames,
        img_size=(h * rows, w * columns),
        registers=result.state[f"{ENCODER}.registers"].shape[1],
    )
    result.notes.append("the GELU is the tanh one, as of the fused layers of its training")
    if "cls_head.pooling.proj.weight" in result.state:
        pooling = dict(type="internvideo", out_dim=len(result.state["cls_head.pooling.proj.bias"]))
        norm = dict(type="layer", eps=1e-5)
        result.head = dict(pooling=pooling, num_heads=POOLING_HEADS, depth=0, norm=norm)
    return result


def internvideo_next_rules(state: Mapping[str, Tensor], grid: Grid | None = None) -> list[Rule]:
    """Return the rows for the parts that a state has; its names may be theirs or ours."""
    kernel = next(x for name, x in state.items() if name.endswith("embed.proj.weight"))
    channels, *tubelet = kernel.shape[1:]

    def split(token: Tensor, table: Tensor) -> tuple[Tensor, ...]:
        count = token.shape[1]
        first, places = table.split([count, table.shape[1] - count], dim=1)
        size = grid_of(places.shape[1], grid, tubelet, CLIP)
        others = token[:, 1:] + first[:, 1:]
        return token[:, :1], others, places.unflatten(1, size), first[:, :1]

    def join(cls: Tensor, others: Tensor, places: Tensor, first: Tensor) -> tuple[Tensor, ...]:
        table = torch.cat([first, torch.zeros_like(others), places.flatten(1, 3)], dim=1)
        return torch.cat([cls, others], dim=1), table

    ops = {
        f"{ENCODER}.cls_token": Op(split, join),
        "backbone.embed.norm_pre.weight": Op(  # their channels are last
            lambda x: (x.unflatten(0, (*tubelet, channels)).permute(3, 0, 1, 2).flatten(),),
            lambda x: (x.unflatten(0, (channels, *tubelet)).permute(1, 2, 3, 0).flatten(),),
        ),
    }
    rules = key_map("internvideo_next", "model", ops=ops)
    if has(state, r"clip_projector\.|cls_head\.pooling\."):
        rules += key_map("internvideo_next", "pooling")
    return rules

"""LeVJEPA (Kuhn et al. 2026), the names of its code, in both directions.

It has V-JEPA 2's blocks and rotary positions and a token per frame. Attention is causal between
frames; the class token is a sink, which is the output.
"""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.checkpoints.backbones import HEADS
from mmvidformer.checkpoints.keymap import Conversion, apply_rules, has, key_map, strip_prefixes

UNUSED_WEIGHTS = (r"(projector|sigreg)\..*",)  # of its training
NUM_HEADS = HEADS | {192: 3, 1408: 16, 1664: 16}


def is_levjepa(state: Mapping[str, Tensor]) -> bool:
    """Whether the names are those of LeVJEPA's encoder: a video's, without a position table."""
    video = has(state, r"(^|\.)patch_embed\.proj\.weight$", dim=5)
    plain = has(state, r"(^|\.)cls_token$", r"(^|\.)blocks\.0\.attn\.qkv\.bias$")
    return video and plain and not has(state, r"(pos|time|temp)_embed")


def from_levjepa(state: Mapping[str, Tensor]) -> Conversion:
    """Convert LeVJEPA's encoder; what its loss reads is ignored.

    Raises:
        UserError: If names do not fit.
    """
    state = strip_prefixes(state)
    result = apply_rules(state, key_map("levjepa", "model"), UNUSED_WEIGHTS)
    result.model, result.scheme = "VideoTransformer", "levjepa"
    result.num_heads = NUM_HEADS.get(len(result.state["backbone.embed.proj.bias"]))
    return result

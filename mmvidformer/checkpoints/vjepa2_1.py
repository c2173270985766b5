"""V-JEPA 2.1 (Meta, 2026), the names of its code, in both directions.

It is V-JEPA 2 with true rotations whose places are stretched to those of the pretraining, a
projection of its own for images, and norms of the tokens of several layers. A vector for each of
videos and images, which is added to all tokens, is added to the bias of the projection instead.
"""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.checkpoints.backbones import ENCODER, HEADS
from mmvidformer.checkpoints.keymap import (
    Conversion,
    Rule,
    apply_rules,
    count_blocks,
    has,
    key_map,
    strip_prefixes,
)
from mmvidformer.checkpoints.operations import Op
from mmvidformer.errors import UserError

UNUSED_WEIGHTS = (r"predictor\..*",)
# Blocks with norms of their own, by depth; the last block's is that of the output.
LAYERS = {12: (2, 5, 8), 24: (5, 11, 17), 40: (9, 19, 29), 48: (11, 23, 37)}
NUM_HEADS = HEADS | {1408: 22, 1664: 26}
# The vector (1, 1, D) of a modality is added to the bias (D,); on the way back it is zero.
ADD_VECTOR = Op(
    lambda bias, vector: (bias + vector.flatten(),),
    lambda bias: (bias, bias.new_zeros(1, 1, len(bias))),
)


def is_vjepa2_1(state: Mapping[str, Tensor]) -> bool:
    """Whether the names are those of V-JEPA 2.1's encoder."""
    return has(state, r"video_mod_embed$", r"norms_block\.\d+\.weight$", r"patch_embed\.")


def from_vjepa2_1(state: Mapping[str, Tensor]) -> Conversion:
    """Convert V-JEPA 2.1's encoder; the predictor is ignored.

    Raises:
        UserError: If names do not fit.
    """
    state = strip_prefixes(state)
    result = apply_rules(state, vjepa2_1_rules(state), UNUSED_WEIGHTS)
    result.model, result.scheme = "VideoTransformer", "vjepa2_1"
    result.num_heads = NUM_HEADS.get(len(result.state["backbone.embed.proj.bias"]))
    depth = count_blocks(result.state, f"{ENCODER}.blocks.")
    result.settings = dict(layer_norms=list(LAYERS[depth]))
    return result


def vjepa2_1_rules(state: Mapping[str, Tensor]) -> list[Rule]:
    """Return the rows of the encoder, whose names may be theirs or ours.

    Raises:
        UserError: If it has another depth than the published ones, so that its layers are unknown.
    """
    depth = max(count_blocks(state, stem) for stem in ("blocks.", f"{ENCODER}.blocks."))
    if depth not in LAYERS:
        raise UserError(f"V-JEPA 2.1 has 12, 24, 40 or 48 blocks, got {depth}")
    layers = dict(zip(("first", "second", "third"), map(str, LAYERS[depth]), strict=True))
    names = ("backbone.embed.proj.bias", "backbone.embed.image_proj.bias")
    ops = dict.fromkeys(names, ADD_VECTOR)
    return key_map("vjepa2_1", "model", ops=ops, **layers)

"""V-JEPA 2.1 (Meta, 2026), the names of its code, in both directions.

It is V-JEPA 2 with true rotations whose places are stretched to those of the pretraining, and a
projection of its own for images. A vector for each of videos and images, which is added to all
tokens, is added to the bias of the projection instead.
"""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.checkpoints.backbones import HEADS
from mmvidformer.checkpoints.keymap import (
    Conversion,
    Op,
    Rule,
    apply_rules,
    has,
    key_map,
    strip_prefixes,
)

# Wrappers of the official code, and of a compiled model.
WRAPPERS = ("module.", "_orig_mod.", "backbone.", "encoder.")
IGNORED = (r"predictor\..*", r"norms_block\.[0-2]\..*")
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
        ValueError: If names do not fit.
    """
    state = strip_prefixes(state, WRAPPERS)
    result = apply_rules(state, vjepa2_1_rules(), IGNORED)
    result.model, result.scheme = "VideoTransformer", "vjepa2_1"
    result.num_heads = NUM_HEADS.get(len(result.state["backbone.embed.proj.bias"]))
    return result


def vjepa2_1_rules() -> list[Rule]:
    """Return the rows of the encoder."""
    names = ("backbone.embed.proj.bias", "backbone.embed.image_proj.bias")
    ops = dict.fromkeys(names, ADD_VECTOR)
    return key_map("vjepa2_1", "model", ops=ops)

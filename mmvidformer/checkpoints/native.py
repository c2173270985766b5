"""This package's own weights: those of a recognizer, or of a backbone alone."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.checkpoints.backbones import HUGGINGFACE_MODELS
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.errors import UserError
from mmvidformer.layers.linear import merge_lora

# Part of a weight's name that every backbone has, and the neck of HORST.
SIGNS = (
    "encoders.0.blocks.0.sublayers.",
    "backbone.inception_5b_3x3.",
    "neck.layers.0.encode.conv.",
)
BACKBONE = ("embed.", "encoders.")
RECOGNIZER = ("backbone.", "neck.", "cls_head.")
UNUSED_WEIGHTS = (
    "data_preprocessor.",
    *("decoder.", "to_decoder.", "to_pixels.", "mask_token", "projector."),  # of pretraining
)


def is_native(state: Mapping[str, Tensor]) -> bool:
    """Return whether the names are those of a recognizer or backbone of this package."""
    return any(sign in name for name in state for sign in SIGNS)


def from_native(
    state: Mapping[str, Tensor], meta: Mapping = {}, scheme: str | None = None
) -> Conversion:
    """Take the weights of a recognizer, or of a backbone alone.

    The ``meta`` is what ``convert_file`` wrote. Checkpoints of training runs have none of it, so
    their ``scheme`` may be given.
    """
    named = {f"backbone.{n}" if n.startswith(BACKBONE) else n: x for n, x in state.items()}
    result = Conversion({name: x for name, x in named.items() if name.startswith(RECOGNIZER)})
    merge_lora(result.state)
    result.ignored = [name for name in named if name.startswith(UNUSED_WEIGHTS)]
    if unknown := [name for name in named if not name.startswith((*RECOGNIZER, *UNUSED_WEIGHTS))]:
        raise UserError(f"names that are not part of a recognizer: {unknown}")
    result.settings, result.head = dict(meta.get("backbone", {})), dict(meta.get("head", {}))
    stated = result.settings.get("scheme", meta.get("scheme", scheme))
    if scheme not in (None, stated):
        raise UserError(f"the scheme is {stated!r}, not {scheme!r}")
    model_of_scheme, *_ = HUGGINGFACE_MODELS.get(stated or "", ("",))
    result.scheme, result.model = stated, result.settings.pop("type", model_of_scheme)
    result.num_heads = result.settings.get("arch", {}).get("num_heads")
    return result

"""The faster copy of a recognizer that answers videos."""

from typing import Any

from torch import nn

from mmvidformer.errors import UserError
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.video_transformer import VideoTransformer


def make_fast(model: Any, int8: bool = False, static: float | None = None) -> nn.Module | None:
    """Make a faster copy of a recognizer, whose answers differ a little with ``int8`` or runs.

    Args:
        model: The recognizer, in evaluation mode. The copy shares its weights but those of 8 bits.
        int8: See ``optimize_for_inference``.
        static: Tolerance of run lengths (``fast.run_lengths``), in the mean of pixels of 0 to
            255, if all colors have one standard deviation. None: that of the model, if any.

    Returns:
        The copy, None without a ``VideoTransformer``.

    Raises:
        UserError: If the model cannot have 8 bits, or run lengths.
    """
    if not isinstance(model.backbone, VideoTransformer):
        if what := in_words(model, int8, static):
            raise UserError(f"{what}: for a VideoTransformer, got {type(model.backbone).__name__}")
        return None
    fast: Any = optimize_for_inference(model, share_weights=True, int8=int8)
    if static is not None:
        std = getattr(model.data_preprocessor, "std", None)
        fast.backbone.static = static if std is None else static / std.mean().item()
    return fast


def in_words(model: Any, int8: bool, static: float | None) -> str:
    """Return what makes answers inexact; nothing if they are exact."""
    reasons = ["int8"] if int8 else []
    if static is not None:
        reasons.append(f"still parts (up to {static:g} of 255) computed once")
    elif getattr(model.backbone, "static", None) is not None:
        reasons.append(f"still parts computed once (static={model.backbone.static:g} of the model)")
    return " and ".join(reasons)

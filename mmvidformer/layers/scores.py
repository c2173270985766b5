"""What a head makes of features: scores of any precision, or a sentence why it cannot."""

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from mmvidformer.errors import UserError

Scores = TypeVar("Scores")
CLIP_ANSWERS = [f"{head}.predict_by_feat" for head in ("BaseHead", "Head", "MultiTaskHead")]


class HeadDoesNotFit(UserError):
    """A head cannot read what it got, in a sentence."""


def widen(scores: Scores) -> Scores:
    """Convert the half-precision tensors of a tensor or a nested container to float32."""
    half = (torch.float16, torch.bfloat16)
    return tree_map_only(Tensor, lambda x: x.float() if x.dtype in half else x, scores)


def score(head: Any, feats: Any, arguments: Mapping[str, Any]) -> Any:
    """Return what a head makes of features, at least in float32.

    Raises:
        HeadDoesNotFit: If it cannot read them.
    """
    try:
        scores = widen(head(feats, **arguments))
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        is_known = isinstance(error, HeadDoesNotFit)
        if is_known or "out of memory" in str(error) or "CUDA" in str(error):
            raise
        raise misfit(head, feats, str(error).partition("\n")[0]) from error
    # Heads that do not answer in a way of their own score clips.
    if type(head).predict_by_feat.__qualname__ in CLIP_ANSWERS and scores.dim() > 2:
        raise misfit(head, feats, f"its scores are {tuple(scores.shape)}, not of clips")
    return scores


def check_tokens(head: nn.Module, feats: Any) -> None:
    """Raise ``HeadDoesNotFit`` if features are not the tokens (N, T, H, W, D) that a head reads."""
    width = head.in_channels
    if not isinstance(feats, Tensor) or feats.dim() != 5 or feats.shape[-1] != width:
        raise misfit(head, feats, f"tokens (N, T, H, W, {width}) are needed")


def misfit(head: nn.Module, feats: Any, reason: str) -> HeadDoesNotFit:
    """Return the error of a head that cannot read features, with their shapes."""
    got = tree_map_only(Tensor, lambda x: tuple(x.shape), feats)
    return HeadDoesNotFit(f"{type(head).__name__} cannot read {got}: {reason}")


def explain_misfit(backbone: nn.Module, error: HeadDoesNotFit) -> UserError:
    """Return the error of a recognizer whose head cannot read what its backbone returns."""
    return UserError(
        f"head and backbone do not fit: of {type(backbone).__name__}, {error}; which features a "
        "head reads, docs/mmaction2.md lists"
    )

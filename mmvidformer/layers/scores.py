"""What a head makes of features: scores of any precision, or a sentence why it cannot."""

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from mmvidformer.errors import UserError

Scores = TypeVar("Scores")


class HeadDoesNotFit(UserError):
    """A head cannot read what it got, in a sentence."""


def widen(scores: Scores) -> Scores:
    """Convert the half-precision tensors of a tensor or a nested container to float32."""
    half = (torch.float16, torch.bfloat16)
    return tree_map_only(Tensor, lambda x: x.float() if x.dtype in half else x, scores)


def score(head: nn.Module, feats: Any, arguments: Mapping[str, Any]) -> Any:
    """Return what a head makes of features, at least in float32.

    Raises:
        HeadDoesNotFit: If it cannot read them.
    """
    try:
        return widen(head(feats, **arguments))
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        if "out of memory" in str(error) or "CUDA" in str(error):
            raise
        got = tree_map_only(Tensor, lambda x: tuple(x.shape), feats)
        reason = str(error).partition("\n")[0]
        raise HeadDoesNotFit(f"{type(head).__name__} cannot read {got}: {reason}") from error


def explain_misfit(backbone: nn.Module, error: HeadDoesNotFit) -> UserError:
    """Return the error of a recognizer whose head cannot read what its backbone returns."""
    return UserError(
        f"head and backbone do not fit: of {type(backbone).__name__}, {error}; which features a "
        "head reads, docs/mmaction2.md lists"
    )

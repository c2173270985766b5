"""MMAction2 1.2's heads cannot handle scores in bfloat16.

Symptom: ``TypeError: Got unsupported ScalarType BFloat16`` in the first training step under
bfloat16 autocast, and in ``AccMetric`` when testing, because heads and metrics convert scores to
NumPy arrays, which have no such type. The repair converts half-precision scores to float32 between
a head's forward pass and its loss or prediction. Other scores are passed on as they are. A head
that cannot read what its backbone returns says so, with the names of both.
"""

from typing import TypeVar

import torch
from mmaction.models.heads import BaseHead
from mmaction.models.recognizers import BaseRecognizer
from torch.utils._pytree import tree_map_only

from mmvidformer.errors import UserError

Scores = TypeVar("Scores")


def widen(scores: Scores) -> Scores:
    """Convert the half-precision tensors of a tensor or a nested container to float32."""
    half = (torch.float16, torch.bfloat16)
    return tree_map_only(torch.Tensor, lambda x: x.float() if x.dtype in half else x, scores)


class HeadDoesNotFit(UserError):
    """A head cannot read what it got, in a sentence."""


def _loss(head: torch.nn.Module, feats: object, data_samples: list, **kwargs: object) -> dict:
    return head.loss_by_feat(_score(head, feats, kwargs), data_samples)


def _predict(head: torch.nn.Module, feats: object, data_samples: list, **kwargs: object) -> list:
    return head.predict_by_feat(_score(head, feats, kwargs), data_samples)


def _score(head: torch.nn.Module, feats: object, kwargs: dict) -> object:
    try:
        return widen(head(feats, **kwargs))
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        if "out of memory" in str(error) or "CUDA" in str(error):
            raise
        got = tree_map_only(torch.Tensor, lambda x: tuple(x.shape), feats)
        reason = str(error).partition("\n")[0]
        raise HeadDoesNotFit(f"{type(head).__name__} cannot read {got}: {reason}") from error


def _forward(self: BaseRecognizer, *args: object, **kwargs: object) -> object:
    try:
        return forward(self, *args, **kwargs)
    except HeadDoesNotFit as error:
        backbone = type(self.backbone).__name__
        raise UserError(
            f"head and backbone do not fit: of {backbone}, {error}; which features a head reads, "
            "docs/mmaction2.md lists"
        ) from error


BaseHead.loss, BaseHead.predict = _loss, _predict
forward = BaseRecognizer.forward
BaseRecognizer.forward = _forward

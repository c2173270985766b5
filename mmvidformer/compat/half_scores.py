"""MMAction2 1.2's heads cannot count accuracy on scores of a half precision.

Symptom: ``TypeError: Got unsupported ScalarType BFloat16`` in the first training step under
bfloat16 autocast, and in ``AccMetric`` after a test under it: heads and metrics hand the scores to
NumPy, which has no bfloat16. Scores of float16 get through, with three digits for the softmax over
views.
Losses and scores are float32 from here on, whatever precision the network has.
"""

from importlib.util import find_spec
from types import ModuleType

import torch
from torch.utils._pytree import tree_map_only

from mmvidformer.compat.finders import after_import


def widen(scores: object) -> object:
    """Make float32 of each tensor of a half precision in scores, which may be nested."""
    return tree_map_only(torch.Tensor, _widen_one, scores)


def _widen_one(scores: torch.Tensor) -> torch.Tensor:
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores


def _loss(head: torch.nn.Module, feats: object, data_samples: list, **kwargs: object) -> dict:
    return head.loss_by_feat(widen(head(feats, **kwargs)), data_samples)


def _predict(head: torch.nn.Module, feats: object, data_samples: list, **kwargs: object) -> list:
    return head.predict_by_feat(widen(head(feats, **kwargs)), data_samples)


def _change(base: ModuleType) -> None:
    base.BaseHead.loss, base.BaseHead.predict = _loss, _predict


def needed() -> bool:
    """Whether MMAction2 is there."""
    return find_spec("mmaction") is not None


def repair() -> None:
    """Widen scores between a head's forward pass and its losses, once heads are imported."""
    after_import("mmaction.models.heads.base", _change)

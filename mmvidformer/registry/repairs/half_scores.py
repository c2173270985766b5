"""MMAction2 1.2's heads cannot handle scores in bfloat16.

Symptom: ``TypeError: Got unsupported ScalarType BFloat16`` in the first training step under
bfloat16 autocast, and in ``AccMetric`` when testing, because heads and metrics convert scores to
NumPy arrays, which have no such type. The repair converts half-precision scores to float32 between
a head's forward pass and its loss or prediction. Other scores are passed on as they are.
"""

import torch
from mmaction.models.heads import BaseHead
from torch.utils._pytree import tree_map_only


def widen(scores: object) -> object:
    """Convert the half-precision tensors of a tensor or a nested container to float32."""
    half = (torch.float16, torch.bfloat16)
    return tree_map_only(torch.Tensor, lambda x: x.float() if x.dtype in half else x, scores)


def _loss(head: torch.nn.Module, feats: object, data_samples: list, **kwargs: object) -> dict:
    return head.loss_by_feat(widen(head(feats, **kwargs)), data_samples)


def _predict(head: torch.nn.Module, feats: object, data_samples: list, **kwargs: object) -> list:
    return head.predict_by_feat(widen(head(feats, **kwargs)), data_samples)


BaseHead.loss, BaseHead.predict = _loss, _predict

"""MMAction2 1.2's heads cannot handle scores in bfloat16.

Symptom: ``TypeError: Got unsupported ScalarType BFloat16`` in the first training step under
bfloat16 autocast, and in ``AccMetric`` when testing, because heads and metrics convert scores to
NumPy arrays, which have no such type. The repair converts half-precision scores to float32 between
a head's forward pass and its loss or prediction. Other scores are passed on as they are.
"""

from types import ModuleType

import torch
from torch.utils._pytree import tree_map_only

from mmvidformer.compat.imports import after_import


def widen(scores: object) -> object:
    """Convert the half-precision tensors of a tensor or a nested container to float32."""
    half = (torch.float16, torch.bfloat16)
    return tree_map_only(torch.Tensor, lambda x: x.float() if x.dtype in half else x, scores)


def _change(base: ModuleType) -> None:
    def loss(self, feats, data_samples, **kwargs):
        return self.loss_by_feat(widen(self(feats, **kwargs)), data_samples)

    def predict(self, feats, data_samples, **kwargs):
        return self.predict_by_feat(widen(self(feats, **kwargs)), data_samples)

    base.BaseHead.loss, base.BaseHead.predict = loss, predict


def repair() -> None:
    """Change ``BaseHead.loss`` and ``BaseHead.predict`` once they are imported."""
    after_import("mmaction.models.heads.base", _change)

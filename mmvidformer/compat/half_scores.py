"""MMAction2 1.2's heads cannot handle scores in bfloat16.

Symptom: ``TypeError: Got unsupported ScalarType BFloat16`` in the first training step under
bfloat16 autocast, and in ``AccMetric`` when testing, because heads and metrics convert scores to
NumPy arrays, which have no such type. The repair converts half-precision scores to float32 between
a head's forward pass and its loss or prediction. Other scores are passed on as they are.
"""

from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch
from torch.utils._pytree import tree_map_only

from mmvidformer.compat.imports import after_import


def widen(scores: object) -> object:
    """Convert the half-precision tensors of a tensor or a nested container to float32."""
    half = (torch.float16, torch.bfloat16)
    return tree_map_only(torch.Tensor, lambda x: x.float() if x.dtype in half else x, scores)


def _loss(head: torch.nn.Module, feats: object, data_samples: list, **kwargs: object) -> dict:
    return head.loss_by_feat(widen(head(feats, **kwargs)), data_samples)


def _predict(head: torch.nn.Module, feats: object, data_samples: list, **kwargs: object) -> list:
    return head.predict_by_feat(widen(head(feats, **kwargs)), data_samples)


def _change(base: ModuleType) -> None:
    base.BaseHead.loss, base.BaseHead.predict = _loss, _predict


def needed() -> bool:
    """Whether MMAction2's base head converts scores to NumPy without widening them."""
    source = Path(find_spec("mmaction").origin).with_name("models") / "heads" / "base.py"
    return "cls_scores.detach().cpu().numpy()" in source.read_text(encoding="utf-8")


def repair() -> None:
    """Change ``BaseHead.loss`` and ``BaseHead.predict`` once they are imported."""
    after_import("mmaction.models.heads.base", _change)

"""Recognizers of clips."""

from mmvidformer.registry import MODELS  # isort: skip  (repairs MMAction2 first)

import torch
from mmaction.models.recognizers import Recognizer3D
from torch import Tensor
from torch.utils._pytree import tree_map


@MODELS.register_module()
class MultiViewRecognizer(Recognizer3D):
    """MMAction2's ``Recognizer3D`` with a limit of test views for batches of any size.

    MMAction2's raises an error for ``max_testing_views`` unless a batch is one video, so a config
    that limits the views and validates in batches fails at its first validation. Arguments are
    those of ``Recognizer3D``. In ``test_cfg``, ``max_testing_views`` is the number of views, over
    the whole batch, that go through backbone and neck at once. It does not change the scores.
    """

    def extract_feat(
        self,
        inputs: Tensor,
        stage: str = "neck",
        data_samples: list | None = None,
        test_mode: bool = False,
    ) -> tuple:
        """Extract features of ``inputs`` (B, views, C, T, H, W); see ``Recognizer3D``."""
        limit = (self.test_cfg or {}).get("max_testing_views") if test_mode else None
        if not limit:
            return super().extract_feat(inputs, stage, data_samples, test_mode)
        parts = [
            super(MultiViewRecognizer, self).extract_feat(part[None], stage, None, test_mode)
            for part in inputs.flatten(0, 1).split(limit)
        ]
        features, arguments = zip(*parts, strict=True)
        return tree_map(lambda *tensors: torch.cat(tensors), *features), arguments[0]

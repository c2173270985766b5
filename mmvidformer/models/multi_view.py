"""A recogniser that tests many views in bounded memory."""

import torch
from mmaction.models.recognizers import Recognizer3D
from torch import Tensor
from torch.utils._pytree import tree_map

from mmvidformer.registry import MODELS


@MODELS.register_module()
class MultiViewRecognizer(Recognizer3D):
    """MMAction2's ``Recognizer3D``, with a limit of views that holds for batches of any size.

    MMAction2's refuses ``max_testing_views`` unless a batch is one video, and so ends the first
    validation of a config that limits the test views and validates in batches. Arguments are those
    of ``Recognizer3D``; in ``test_cfg``, ``max_testing_views`` is the most clips that go through
    backbone and neck at once. Scores are those without a limit.
    """

    def extract_feat(
        self,
        inputs: Tensor,
        stage: str = "neck",
        data_samples: list | None = None,
        test_mode: bool = False,
    ) -> tuple:
        """Extract features of ``inputs`` (B, views, C, T, H, W); as ``Recognizer3D``."""
        limit = (self.test_cfg or {}).get("max_testing_views") if test_mode else None
        if not limit:
            return super().extract_feat(inputs, stage, data_samples, test_mode)
        parts = [
            super(MultiViewRecognizer, self).extract_feat(part[None], stage, None, test_mode)
            for part in inputs.flatten(0, 1).split(limit)
        ]
        features, arguments = zip(*parts, strict=True)
        return tree_map(lambda *tensors: torch.cat(tensors), *features), arguments[0]

from mmvidformer.errors import UserError

from mmvidformer.registry import MODELS  # isort: skip  (repairs MMAction2 first)

import torch
from mmaction.models.heads import BaseHead
from mmaction.models.recognizers import Recognizer3D
from mmaction.structures import ActionDataSample
from torch import Tensor
from torch.utils._pytree import tree_map

from mmvidformer.checkpoints.on_load import ConvertsWeights
from mmvidformer.models.lengths import ClipList, check_unsharded, group_by_shape, run_by_length
from mmvidformer.registry.repairs.half_scores import widen


@MODELS.register_module()
class MultiViewRecognizer(ConvertsWeights, Recognizer3D):
    """MMAction2's ``Recognizer3D`` for clips of any lengths, with a limit of test views.

    Arguments are those of ``Recognizer3D``. In ``test_cfg``, ``max_testing_views`` is the number of
    views, over the whole batch, that go through backbone and neck at once; MMAction2's takes it for
    batches of one video only. It does not change the scores.

    Clips of different lengths come as a list (``VideoDataPreprocessor``). Those of one length go
    through backbone and head together, so each clip gets the scores that it gets alone.

    Raises:
        UserError: If the backbone trains on some of its tokens (``token_keep``), but the head
            reads their places; if clips differ in length and the model has a neck or is fully
            sharded, or the head has a loss of its own, which needs the features of the whole batch.
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        head = getattr(self, "cls_head", None)
        if getattr(self.backbone, "token_keep", 1) < 1 and getattr(head, "reads_places", False):
            name = type(head).__name__
            raise UserError(f"{name} reads the places of all tokens: token_keep must be 1")

    def loss(self, inputs: Tensor | ClipList, data_samples: list, **kwargs) -> dict:
        """Compute the losses of clips (B, views, C, T, H, W), or of a list of B clips."""
        if not isinstance(inputs, list):
            return super().loss(inputs, data_samples, **kwargs)
        self._check_lengths()
        if type(self.cls_head).loss is not BaseHead.loss:
            name = type(self.cls_head).__name__
            raise UserError(f"clips of different lengths cannot train {name}; use one length")

        def run(stack: Tensor) -> Tensor:
            features, arguments = self.extract_feat(stack)
            return self.cls_head(features, **arguments).unflatten(0, stack.shape[:2])

        scores = torch.cat(run_by_length(run, inputs))
        return self.cls_head.loss_by_feat(widen(scores), data_samples)

    def predict(self, inputs: Tensor | ClipList, data_samples: list, **kwargs) -> list:
        """Predict the classes of clips (B, views, C, T, H, W), or of a list of B clips."""
        if not isinstance(inputs, list):
            return super().predict(inputs, data_samples, **kwargs)
        self._check_lengths()
        answers: dict[int, ActionDataSample] = {}
        for rows in group_by_shape(inputs):
            stack = torch.stack([inputs[row] for row in rows])
            samples = [data_samples[row] for row in rows]
            answers |= zip(rows, super().predict(stack, samples, **kwargs), strict=True)
        return [answers[row] for row in range(len(inputs))]

    def _check_lengths(self) -> None:
        """Raise a ``UserError`` if the model cannot run clips of different lengths."""
        check_unsharded(self)
        if self.with_neck:
            raise UserError("clips of different lengths cannot run in a model with a neck")

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

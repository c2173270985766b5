"""Recognizers of clips."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from mmvidformer.catalog import MODELS
from mmvidformer.checkpoints.on_load import ConvertsWeights
from mmvidformer.errors import UserError
from mmvidformer.layers.samples import Sample, Samples
from mmvidformer.layers.scores import HeadDoesNotFit, explain_misfit, widen
from mmvidformer.models.head import Head
from mmvidformer.models.lengths import ClipList, check_unsharded, group_by_shape, run_by_length
from mmvidformer.models.steps import StepModel


class VideoRecognizer(ConvertsWeights, StepModel):
    """Backbone, neck and head, as MMAction2's ``BaseRecognizer`` has them.

    A subclass has ``extract_feat``, which returns features and arguments of the head.

    Args:
        backbone: Config of the backbone.
        cls_head: Config of the head, if there is one.
        neck: Config of the neck, if there is one.
        train_cfg: Not used.
        test_cfg: Settings of tests.
        data_preprocessor: As of ``StepModel``.
    """

    def __init__(
        self,
        backbone: Mapping[str, Any],
        cls_head: Mapping[str, Any] | None = None,
        neck: Mapping[str, Any] | None = None,
        train_cfg: Mapping[str, Any] | None = None,
        test_cfg: Mapping[str, Any] | None = None,
        data_preprocessor: Mapping[str, Any] | nn.Module | None = None,
    ) -> None:
        super().__init__(data_preprocessor)
        self.backbone = MODELS.build(backbone)
        if neck is not None:
            self.neck = MODELS.build(neck)
        if cls_head is not None:
            self.cls_head = MODELS.build(cls_head)
        self.train_cfg, self.test_cfg = train_cfg, test_cfg

    @property
    def with_neck(self) -> bool:
        """Whether there is a neck."""
        return getattr(self, "neck", None) is not None

    @property
    def with_cls_head(self) -> bool:
        """Whether there is a head."""
        return getattr(self, "cls_head", None) is not None

    def forward(
        self,
        inputs: Tensor | ClipList,
        data_samples: Samples | None = None,
        mode: str = "tensor",
        **kwargs: Any,
    ) -> Any:
        """Return losses, data samples with predictions, or features, as ``mode`` says.

        Args:
            inputs: Clips (B, views, C, T, H, W), or a list of B clips.
            data_samples: Data samples of the clips.
            mode: ``'loss'``, ``'predict'`` or ``'tensor'``.
            **kwargs: Of ``'tensor'``: ``stage``, the last part that runs (``extract_feat``).
        """
        try:
            if mode == "tensor":
                return self.extract_feat(inputs, **{"stage": "backbone", **kwargs})[0]
            if mode == "predict":
                return self.predict(inputs, data_samples or [], **kwargs)
            if mode == "loss":
                return self.loss(inputs, data_samples or [], **kwargs)
        except HeadDoesNotFit as error:
            raise explain_misfit(self.backbone, error) from error
        raise UserError(f"mode must be 'loss', 'predict' or 'tensor', got {mode!r}")

    def extract_feat(self, inputs: Any, *args: Any, **kwargs: Any) -> tuple[Any, dict]:
        """Return features and arguments of the head."""
        raise NotImplementedError

    def loss(self, inputs: Any, data_samples: Samples, **kwargs: Any) -> dict[str, Any]:
        """Compute the losses of clips; those of the neck count, too."""
        features, arguments = self.extract_feat(inputs, data_samples=data_samples)
        losses = self.cls_head.loss(features, data_samples, **arguments)
        return {**losses, **arguments.get("loss_aux", {})}

    def predict(self, inputs: Any, data_samples: Samples, **kwargs: Any) -> Samples:
        """Store the predictions of clips in their data samples."""
        features, arguments = self.extract_feat(inputs, test_mode=True)
        return self.cls_head.predict(features, data_samples, **arguments)


@MODELS.add
class MultiViewRecognizer(VideoRecognizer):
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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        head = getattr(self, "cls_head", None)
        if getattr(self.backbone, "token_keep", 1) < 1 and getattr(head, "reads_places", False):
            name = type(head).__name__
            raise UserError(f"{name} reads the places of all tokens: token_keep must be 1")

    def loss(self, inputs: Tensor | ClipList, data_samples: Samples, **kwargs: Any) -> dict:
        """Compute the losses of clips (B, views, C, T, H, W), or of a list of B clips."""
        if not isinstance(inputs, list):
            return super().loss(inputs, data_samples, **kwargs)
        self._check_lengths()
        if type(self.cls_head).loss is not Head.loss:
            name = type(self.cls_head).__name__
            raise UserError(f"clips of different lengths cannot train {name}; use one length")

        def run(stack: Tensor) -> Tensor:
            features, arguments = self.extract_feat(stack)
            return self.cls_head(features, **arguments).unflatten(0, stack.shape[:2])

        scores = torch.cat(run_by_length(run, inputs))
        return self.cls_head.loss_by_feat(widen(scores), data_samples)

    def predict(self, inputs: Tensor | ClipList, data_samples: Samples, **kwargs: Any) -> Samples:
        """Predict the classes of clips (B, views, C, T, H, W), or of a list of B clips."""
        if not isinstance(inputs, list):
            return super().predict(inputs, data_samples, **kwargs)
        self._check_lengths()
        answers: dict[int, Sample] = {}
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
        data_samples: Samples | None = None,
        test_mode: bool = False,
    ) -> tuple[Any, dict]:
        """Extract features of clips, as MMAction2's ``Recognizer3D`` does.

        Args:
            inputs: Clips (B, views, C, T, H, W).
            stage: The last part that runs: ``'backbone'``, ``'neck'`` or ``'head'``.
            data_samples: For the loss of a neck.
            test_mode: Whether views run in parts of ``max_testing_views``.

        Returns:
            Features of the views (B * views, ...), and arguments of the head.
        """
        views = inputs.flatten(0, 1)
        if not test_mode:
            return self._run(views, stage, data_samples)
        settings = self.test_cfg or {}
        parts = views.split(settings.get("max_testing_views") or len(views))
        features = [self._run(part, "neck", None)[0] for part in parts]
        arguments = {} if self.test_cfg is None else {"fcn_test": settings.get("fcn_test", False)}
        return tree_map(lambda *tensors: torch.cat(tensors), *features), arguments

    def _run(self, views: Tensor, stage: str, data_samples: Samples | None) -> tuple[Any, dict]:
        features = self.backbone(views)
        if stage == "backbone":
            return features, {}
        losses: dict[str, Any] = {}
        if self.with_neck:
            features, losses = self.neck(features, data_samples=data_samples)
        arguments = {"loss_aux": losses}
        if stage == "head":
            features = self.cls_head(features, **arguments)
        return features, arguments

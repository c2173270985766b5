"""Recurrent recognizer for clips and streams."""

from mmvidformer.registry import MODELS  # isort: skip  (repairs MMAction2 first)

from collections.abc import Sequence
from typing import Any

import torch
from mmaction.models.recognizers import BaseRecognizer
from mmaction.structures import ActionDataSample
from torch import Tensor

from mmvidformer.models.horst.layer import HorstOutput
from mmvidformer.models.preprocessor import VideoDataPreprocessor

# Meta information of a sample: number of time steps of its clip before padding.
LENGTH = "length"


@MODELS.register_module()
class ClipPadding(VideoDataPreprocessor):
    """A ``VideoDataPreprocessor`` for clips of different lengths.

    Clips are padded at their end, and the number of their frames is stored as ``length`` of each
    sample. Arguments are those of ``VideoDataPreprocessor``; ``format_shape`` must be ``'NCTHW'``.

    Raises:
        ValueError: If ``format_shape`` is not ``'NCTHW'``.
    """

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**{"format_shape": "NCTHW", **kwargs})
        if self.format_shape != "NCTHW":
            raise ValueError(f"format_shape must be 'NCTHW', got {self.format_shape!r}")

    def preprocess(
        self,
        inputs: list[Tensor],
        data_samples: list[ActionDataSample] | None,
        training: bool = False,
    ) -> tuple[Tensor, list[ActionDataSample] | None]:
        """Store the lengths of clips (views, C, T, H, W), then pad, stack and normalize them."""
        if data_samples is not None:
            for clip, sample in zip(inputs, data_samples, strict=True):
                sample.set_metainfo({LENGTH: clip.shape[-3]})
        return super().preprocess(inputs, data_samples, training)


@MODELS.register_module()
class RecurrentRecognizer(BaseRecognizer):
    """Map frames to maps (``backbone``), maps to recurrent outputs (``neck``), outputs to classes.

    Without a neck, the backbone is a causal ``VideoTransformer`` with tubelets of one frame and
    ``pool='none'``, whose tokens are the outputs y, e and STATT that heads read.

    Inputs are clips (B, views, C, T, H, W), as from ``FormatShape('NCTHW')`` and ``ClipPadding``,
    or (B, T, C, H, W), as from ``FormatShape('NCHW')``. Frames after a sample's ``length``, if it
    has one, are padding. Arguments are those of MMAction2's ``BaseRecognizer``.

    Raises:
        ValueError: If the model has no neck and the backbone cannot run frame by frame.
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        if not self.with_neck:
            self.backbone.check_causal()
            if (frames := self.backbone.embed.tubelet[0]) > 1:
                raise ValueError(f"tubelets of a recurrent model must have one frame, got {frames}")

    def extract_feat(
        self,
        inputs: Tensor,
        stage: str = "neck",
        data_samples: Sequence[ActionDataSample] | None = None,
    ) -> tuple[Tensor | HorstOutput, dict]:
        """Encode clips.

        Args:
            inputs: Clips (B, views, C, T, H, W) or (B, T, C, H, W).
            stage: Last stage: ``'backbone'``, ``'neck'`` or ``'head'``.
            data_samples: Samples with the lengths of the clips.

        Returns:
            Maps (B * views, T, C, h, w), outputs of the neck, or outputs of the head; and the
            arguments of the head.
        """
        views = 1
        if inputs.dim() == 6:
            views = inputs.shape[1]
            inputs = inputs.flatten(0, 1).transpose(1, 2)
        if self.with_neck:
            maps = self.backbone(inputs.flatten(0, 1)).unflatten(0, inputs.shape[:2])
        else:
            maps = self.backbone(inputs.transpose(1, 2)).movedim(-1, 2)
        found = [sample.metainfo.get(LENGTH) for sample in data_samples or ()]
        lengths = None
        if found and None not in found:
            lengths = torch.tensor(found, device=maps.device).repeat_interleave(views)
        if stage == "backbone":
            return maps, {"lengths": lengths}
        outputs = self.neck(maps, lengths)[0] if self.with_neck else HorstOutput(maps, maps, maps)
        if stage == "head":
            outputs = self.cls_head(outputs, lengths=lengths)
        return outputs, {"lengths": lengths}

    def predict(
        self, inputs: Tensor, data_samples: list[ActionDataSample], **kwargs
    ) -> list[ActionDataSample]:
        """Predict the classes of samples; unlike MMAction2's, with the lengths of their clips."""
        features, lengths = self.extract_feat(inputs, data_samples=data_samples)
        return self.cls_head.predict(features, data_samples, **lengths)

    @torch.no_grad()
    def stream(self, frames: Tensor, states: Any = None) -> tuple[HorstOutput, Any]:
        """Process one frame of each clip of a batch, with constant memory and time, no gradients.

        Args:
            frames: Normalized frames (B, C, H, W).
            states: State after the previous frames. Default: none yet.

        Returns:
            Outputs with one time step (B, 1, C, h, w) for the head, and the new state.
        """
        if not self.with_neck:
            tokens, states = self.backbone.step(frames[:, :, None], states)
            maps = tokens.movedim(-1, 2)
            return HorstOutput(maps, maps, maps), states
        output, states = self.neck.step(self.backbone(frames), states)
        return HorstOutput(*(part[:, None] for part in output)), states

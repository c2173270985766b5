"""A recogniser of frames, recurrent layers and a head, for clips and for streams."""

from collections.abc import Sequence

import torch
from mmaction.models.data_preprocessors import ActionDataPreprocessor
from mmaction.models.recognizers import BaseRecognizer
from mmaction.structures import ActionDataSample
from torch import Tensor

from mmvidformer.models.horst.layer import HorstOutput, State
from mmvidformer.registry import MODELS

# Where the steps of a padded clip are noted.
LENGTH = "length"


@MODELS.register_module()
class ClipPadding(ActionDataPreprocessor):
    """MMAction2's preprocessor for clips that are not of one length.

    Clips are padded at their end, and each sample's ``length`` says how many frames it
    has. Arguments are those of ``ActionDataPreprocessor``; ``format_shape`` must be ``'NCTHW'``.

    Raises:
        ValueError: If ``format_shape`` is another.
    """

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**{"format_shape": "NCTHW", **kwargs})
        if self.format_shape != "NCTHW":
            raise ValueError(f"only NCTHW clips can be padded, got {self.format_shape}")

    def preprocess(
        self,
        inputs: list[Tensor],
        data_samples: list[ActionDataSample] | None,
        training: bool = False,
    ) -> tuple[Tensor, list[ActionDataSample] | None]:
        """Note the lengths of clips (views, C, T, H, W), then pad, stack and normalise them."""
        if data_samples is not None:
            for clip, sample in zip(inputs, data_samples, strict=True):
                sample.set_metainfo({LENGTH: clip.shape[-3]})
        return super().preprocess(inputs, data_samples, training)


@MODELS.register_module()
class RecurrentRecognizer(BaseRecognizer):
    """Frames to maps (``backbone``), maps to recurrent outputs (``neck``), outputs to classes.

    Inputs are clips, (B, views, C, T, H, W) as ``FormatShape('NCTHW')`` and ``ClipPadding`` give
    them, or (B, T, C, H, W) as ``FormatShape('NCHW')`` does. Where a sample says
    ``length``, what follows them is padding. Arguments are those of MMAction2's
    ``BaseRecognizer``.
    """

    def extract_feat(
        self,
        inputs: Tensor,
        stage: str = "neck",
        data_samples: Sequence[ActionDataSample] | None = None,
    ) -> tuple[Tensor | HorstOutput, dict]:
        """Encode clips.

        Args:
            inputs: Clips as above.
            stage: Where to stop: ``'backbone'``, ``'neck'`` or ``'head'``.
            data_samples: Samples, for their lengths.

        Returns:
            Maps (B * views, T, C, h, w), outputs of the neck, or those of the head; and the
            arguments of the head.
        """
        views = 1
        if inputs.dim() == 6:
            views = inputs.shape[1]
            inputs = inputs.flatten(0, 1).transpose(1, 2)
        maps = self.backbone(inputs.flatten(0, 1)).unflatten(0, inputs.shape[:2])
        lengths = _lengths(data_samples, views, maps.device)
        if stage == "backbone":
            return maps, {"lengths": lengths}
        outputs = self.neck(maps, lengths)[0]
        if stage == "head":
            outputs = self.cls_head(outputs, lengths=lengths)
        return outputs, {"lengths": lengths}

    def predict(
        self, inputs: Tensor, data_samples: list[ActionDataSample], **kwargs
    ) -> list[ActionDataSample]:
        """Predict the samples; unlike MMAction2's, with their lengths."""
        features, lengths = self.extract_feat(inputs, data_samples=data_samples)
        return self.cls_head.predict(features, data_samples, **lengths)

    def stream(
        self, frames: Tensor, states: Sequence[State] | None = None
    ) -> tuple[HorstOutput, tuple[State, ...]]:
        """Take one frame of each clip of a batch, at constant memory and time.

        Args:
            frames: Normalised frames (B, C, H, W).
            states: States after the frames before; default: none yet.

        Returns:
            Outputs with one step (B, 1, C, h, w), which the head classifies, and the states.
        """
        output, states = self.neck.step(self.backbone(frames), states)
        return HorstOutput(*(part[:, None] for part in output)), states


def _lengths(
    data_samples: Sequence[ActionDataSample] | None, views: int, device: torch.device
) -> Tensor | None:
    found = [sample.metainfo.get(LENGTH) for sample in data_samples or ()]
    if not found or None in found:
        return None
    return torch.tensor(found, device=device).repeat_interleave(views)

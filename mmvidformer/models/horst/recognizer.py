from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mmvidformer.catalog import MODELS
from mmvidformer.errors import UserError
from mmvidformer.layers.samples import Samples
from mmvidformer.models.horst.layer import Features, HorstOutput
from mmvidformer.models.lengths import ClipList, check_unsharded, run_by_length
from mmvidformer.models.recognizers import VideoRecognizer


@MODELS.add
class RecurrentRecognizer(VideoRecognizer):
    """Recurrent recognizer for clips and streams.

    Frames become maps (``backbone``), maps recurrent outputs (``neck``), and these classes.
    Without a neck, the backbone is a causal ``VideoTransformer`` with tubelets of one frame and
    ``pool='none'``, whose tokens are the outputs y, e and STATT that heads read, or with a class
    token (``cls='sink'``), which is the output after the last frame.

    Inputs are clips (B, views, C, T, H, W), as from ``FormatShape('NCTHW')``, or (B, T, C, H, W),
    as from ``FormatShape('NCHW')``. Those of different lengths are a list (``models.lengths``).
    Arguments are those of ``VideoRecognizer``.

    Raises:
        UserError: If the model has no neck and the backbone cannot run frame by frame.
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        if not self.with_neck:
            self.backbone.check_causal()
            frames = self.backbone.embed.tubelet[0]
            if frames > 1:
                raise UserError(f"tubelets of a recurrent model must have one frame, got {frames}")

    def extract_feat(
        self, inputs: Tensor | ClipList, stage: str = "neck", data_samples: Samples | None = None
    ) -> tuple[Features, dict]:
        """Encode clips.

        Args:
            inputs: Clips (B, views, C, T, H, W) or (B, T, C, H, W), or a list of B clips
                (views, C, T_i, H, W).
            stage: Last stage: ``'backbone'``, ``'neck'`` or ``'head'``.
            data_samples: Not used; MMAction2 passes them.

        Returns:
            Maps (B * views, T, C, h, w), outputs of the neck, or outputs of the head; and the
            arguments of the head. Time steps after the end of a clip are 0.
        """
        if isinstance(inputs, list):
            maps, lengths = self._encode_list(inputs)
        else:
            maps, lengths = self._encode(self._frames_first(inputs)), None
        if stage == "backbone":
            return maps, {"lengths": lengths}
        outputs = self.neck(maps, lengths)[0] if self.with_neck else HorstOutput(maps, maps, maps)
        if stage == "head":
            outputs = self.cls_head(outputs, lengths=lengths)
        return outputs, {"lengths": lengths}

    @staticmethod
    def _frames_first(inputs: Tensor) -> Tensor:
        """Return clips (B, views, C, T, H, W) or (B, T, C, H, W) as (B * views, T, C, H, W)."""
        return inputs.flatten(0, 1).transpose(1, 2) if inputs.dim() == 6 else inputs

    def _encode_list(self, inputs: ClipList) -> tuple[Tensor, Tensor]:
        """Map clips (views, C, T_i, H, W) to padded maps (B * views, T, C, h, w) and lengths."""
        clips = [view.transpose(0, 1) for clip in inputs for view in clip]
        if self.with_neck:
            maps = self.backbone(torch.cat(clips)).split([len(clip) for clip in clips])
        else:
            check_unsharded(self)
            maps = run_by_length(self._encode, clips)
        lengths = [len(steps) for steps in maps]
        padded = pad_sequence(maps, batch_first=True)
        return padded, torch.tensor(lengths, device=clips[0].device)

    def _encode(self, clips: Tensor) -> Tensor:
        """Map clips (B, T, C, H, W) to maps (B, T, C, h, w)."""
        if self.with_neck:
            return self.backbone(clips.flatten(0, 1)).unflatten(0, clips.shape[:2])
        return to_maps(self.backbone(clips.transpose(1, 2)))

    def predict(self, inputs: Tensor | ClipList, data_samples: Samples, **kwargs) -> Samples:
        """Predict the classes of samples; unlike MMAction2's, with the lengths of their clips."""
        features, lengths = self.extract_feat(inputs)
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
            maps = to_maps(tokens)
            return HorstOutput(maps, maps, maps), states
        output, states = self.neck.step(self.backbone(frames), states)
        return HorstOutput(*(part[:, None] for part in output)), states


def to_maps(tokens: Tensor) -> Tensor:
    """Return tokens (B, T, h, w, C), or features (B, C) as one step, as maps (B, T, C, h, w)."""
    tokens = tokens[:, None, None, None] if tokens.dim() == 2 else tokens
    return tokens.movedim(-1, 2)

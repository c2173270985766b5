"""Features of frames, encoded once for all clips that share them."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from mmvidformer.models.single_frames import encode_frames, encodes_frames, forward_frames
from mmvidformer.models.video_transformer import VideoTransformer


class FrameStages(NamedTuple):
    """A recognizer whose first stage sees frames on their own, and its two parts.

    Attributes:
        model: The recognizer.
        frames: Number of frames that the first stage sees at a time.
        encode: The first stage. It maps clips (N, C, T', H, W) to features (N, D, T, h, w), with
            T = T' / frames.
        after: A recognizer that takes such features in the place of pixels. It shares the weights.
    """

    model: nn.Module
    frames: int
    encode: Callable[[Tensor], Tensor]
    after: nn.Module


class SharedFrames:
    """Runs a recognizer on clips of one video, and encodes the frames that they share once.

    The features are kept by the numbers of the frames. So the transforms of a test pipeline must
    see each frame alone, as MMAction2's do. A loop over the windows of a video has one of these,
    and threads that run such loops have one each. Windows come in the order of their frames: what
    lies before the first frame of a window is forgotten.

    Args:
        stages: The recognizer (``split_stages``), in evaluation mode.
    """

    def __init__(self, stages: FrameStages) -> None:
        self.stages = stages
        self.features: dict[tuple[int, ...], Tensor] = {}  # see ``_keys``

    @torch.no_grad()
    def test_step(self, data: dict) -> list:
        """Return the predictions of the recognizer's ``test_step`` for samples of a pipeline."""
        model: Any = self.stages.model
        data = model.data_preprocessor(data, False)
        features = self.encode(data["inputs"], data["data_samples"])
        if features is None:
            return model(**data, mode="predict")
        return self.stages.after(**{**data, "inputs": features}, mode="predict")

    @torch.no_grad()
    def encode(self, inputs: Any, data_samples: Sequence[Any]) -> Tensor | None:
        """Encode the frames of clips that are not known yet.

        Args:
            inputs: Normalized clips (B, views, C, T', H, W) or (B, T', C, H, W).
            data_samples: Their samples. ``frame_inds`` has the numbers of the frames of a crop.

        Returns:
            Features in the place of the pixels, (B, views, D, T, h, w) or (B, T, D, h, w). None if
            the inputs are no tensor, no numbers are known, or clips do not fill blocks of frames.
        """
        if not isinstance(inputs, Tensor):  # clips of different lengths
            return None
        has_views = inputs.dim() == 6
        views = inputs if has_views else inputs.transpose(1, 2)[:, None]
        size = self.stages.frames
        if views.shape[3] % size:
            return None
        blocks = views.unflatten(3, (-1, size)).movedim(3, 2)  # (B, views, T, C, size, H, W)
        keys = self._keys(blocks.shape[1] * blocks.shape[2], data_samples)
        if keys is None:
            return None
        places: dict[tuple[int, ...], int] = {}
        for place, key in enumerate(keys):
            if key not in self.features:
                places.setdefault(key, place)
        if places:
            rows = np.unravel_index([*places.values()], blocks.shape[:3])
            encoded = self.stages.encode(blocks[rows])  # (N, D, 1, h, w)
            self.features.update(zip(places, encoded[:, :, 0], strict=True))
        features = torch.stack([self.features[key] for key in keys])
        features = features.unflatten(0, blocks.shape[:3]).movedim(2, 3)
        for sample in range(len(data_samples)):
            self._forget(sample, min(min(key[2:]) for key in keys if key[0] == sample))
        return features if has_views else features[:, 0].transpose(1, 2)

    def _keys(self, blocks: int, data_samples: Sequence[Any]) -> list[tuple[int, ...]] | None:
        """Return sample, crop and frame numbers of each block; each sample has ``blocks``.

        ``FormatShape`` orders them so: first all clips of a crop.
        """
        keys = []
        for sample, data_sample in enumerate(data_samples):
            numbers = np.asarray(data_sample.get("frame_inds", ()), dtype=int).flatten()
            if not len(numbers) or len(numbers) % self.stages.frames:
                return None
            of_crop = numbers.reshape(-1, self.stages.frames).tolist()
            crops, remainder = divmod(blocks, len(of_crop))
            if remainder or not crops:
                return None
            for crop in range(crops):
                keys += [(sample, crop, *block) for block in of_crop]
        return keys

    def _forget(self, sample: int, first: int) -> None:
        """Forget blocks of a sample that begin before a frame."""
        for key in [*self.features]:
            if key[0] == sample and min(key[2:]) < first:
                del self.features[key]


def run_together(videos: Sequence[SharedFrames], data: dict) -> list:
    """Return the predictions of ``SharedFrames.test_step`` for a sample of each of some videos."""
    together = SharedFrames(videos[0].stages)
    for place, video in enumerate(videos):
        together.features |= {(place, *key[1:]): x for key, x in video.features.items()}
        video.features = {}
    outputs = together.test_step(data)
    for (place, *key), x in together.features.items():
        videos[place].features |= {(0, *key): x}
    return outputs


def split_stages(model: nn.Module) -> FrameStages | None:
    """Split a recognizer in evaluation mode; None if its first stage sees whole clips.

    Its first stage sees frames on their own if its backbone is a ``VideoTransformer`` that
    ``encodes_frames`` (ViViT's model 2, space-only TimeSformer), or if it is recurrent with a
    backbone of frames. The parts share the weights, which must not change while they are used.
    """
    size = frames_of_stage(model)
    if size is None:
        return None
    backbone: Any = model.backbone
    encode: Callable[[Tensor], Tensor]
    after: nn.Module
    if isinstance(backbone, VideoTransformer):
        encode, after = partial(encode_frames, backbone), FromFrames(backbone)
    else:  # it maps frames (N, C, H, W) to (N, D, h, w)
        encode, after = partial(encode_images, backbone), nn.Identity()
    memo: dict[int, Any] = {id(tensor): tensor for tensor in model.parameters()}
    memo |= {id(tensor): tensor for tensor in model.buffers()}
    memo[id(backbone)] = after
    return FrameStages(model, size, encode, copy.deepcopy(model, memo))


def frames_of_stage(model: nn.Module) -> int | None:
    """Return how many frames the first stage sees at a time; None if it sees whole clips."""
    backbone = getattr(model, "backbone", None)
    if isinstance(backbone, VideoTransformer):
        return backbone.embed.tubelet[0] if encodes_frames(backbone) else None
    is_recurrent = hasattr(model, "stream")
    return 1 if is_recurrent else None


class FromFrames(nn.Module):
    """The part of a backbone after its first stage."""

    def __init__(self, backbone: VideoTransformer) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, features: Tensor) -> Tensor:
        """Map features (B, D, T, h, w) of frames to the output of the backbone."""
        return forward_frames(self.backbone, features)


def encode_images(backbone: nn.Module, clips: Tensor) -> Tensor:
    """Map clips (N, C, 1, H, W) to features (N, D, 1, h, w), by a backbone of images."""
    return backbone(clips[:, :, 0])[:, :, None]

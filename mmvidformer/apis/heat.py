"""What a model attends to in the frames of a video."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import cv2
import numpy as np
import torch
from torch import Tensor, nn

from mmvidformer.apis.attention_rollout import rollout
from mmvidformer.apis.pipeline import normalize
from mmvidformer.apis.recognizer import Recognizer
from mmvidformer.errors import UserError
from mmvidformer.layers.samples import DataSample
from mmvidformer.tasks.prediction import Prediction


class ClipHeat(NamedTuple):
    """Attention rollout of a clip.

    Attributes:
        frames: RGB (T, H, W, 3), uint8.
        heat: Multiples of the mean share (T, H, W).
        numbers: Number of each frame in the video.
        prediction: Answer for this clip alone.
    """

    frames: np.ndarray
    heat: np.ndarray
    numbers: Sequence[int]
    prediction: Prediction


def rollout_clips(recognizer: Recognizer, sample: dict) -> Iterator[ClipHeat]:
    """Compute what a model attends to in each clip of a video.

    Args:
        recognizer: Recognizer with a backbone that ``rollout`` accepts.
        sample: Clips and their frame numbers, from ``recognizer.pipeline.read``.

    Raises:
        UserError: If rollout is not defined for the model.
    """
    model, clips = recognizer._model, sample["inputs"]  # predictions stay optimized
    if hasattr(model, "stream"):  # its backbone gives features of each frame
        raise UserError(f"rollout is not defined for a {type(model).__name__}")
    # One clip at a time: a single long clip can fill the memory of a device.
    for clip, numbers in zip(
        clips, sample["data_samples"].frame_inds.reshape(len(clips), -1), strict=True
    ):
        normal = normalize(model, clip[None])
        shares = rollout(model.backbone, normal)
        heat = to_heat(shares.tokens[0], model.backbone.embed.tubelet)
        seen = tuple(slice(n) for n in heat.shape)  # a remainder fills no tubelet
        frames = to_frames(model.data_preprocessor, normal[0])[seen]
        with torch.no_grad():
            (scored,) = model.cls_head.predict(shares.features, [DataSample()])
        (prediction,) = recognizer.predictions_of(scored)
        yield ClipHeat(frames, heat, numbers[seen[0]], prediction)


def to_frames(preprocessor: nn.Module, clip: Tensor) -> np.ndarray:
    """Undo the normalization of a clip (C, T, H, W) by an ``ActionDataPreprocessor``.

    Returns:
        RGB frames (T, H, W, C), uint8.
    """
    if hasattr(preprocessor, "mean"):  # in the order of the channels that the model gets, RGB
        mean = preprocessor.mean.to(clip).view(-1, 1, 1, 1)
        std = preprocessor.std.to(clip).view(-1, 1, 1, 1)
        clip = clip * std + mean
    return clip.permute(1, 2, 3, 0).round().clamp(0, 255).to(torch.uint8).cpu().numpy()


def to_heat(shares: Tensor, tubelet: tuple[int, int, int]) -> np.ndarray:
    """Spread the shares (T, H, W) of a clip's tokens over its pixels.

    Returns:
        Multiples of the mean share (T * t, H * h, W * w): bilinear between the centers of the
        patches, equal for all frames of a tubelet.
    """
    maps = (shares / shares.mean()).float().cpu().numpy()
    size = (maps.shape[1] * tubelet[1], maps.shape[2] * tubelet[2])
    return np.repeat(enlarge(maps, size), tubelet[0], axis=0)


def enlarge(maps: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize maps (T, h, w) to frames of a size (H, W), bilinearly."""
    return np.stack([cv2.resize(m, size[::-1], interpolation=cv2.INTER_LINEAR) for m in maps])

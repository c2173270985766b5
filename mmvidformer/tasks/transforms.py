"""Transforms of videos with spans, boxes or features."""

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from mmvidformer.data.transforms.base import Transform
from mmvidformer.data.transforms.rates import constant_times, known_times, rescale
from mmvidformer.data.transforms.sampling import FrameSampler
from mmvidformer.errors import UserError
from mmvidformer.layers.catalog import TRANSFORMS
from mmvidformer.storage.files import read_file
from mmvidformer.video.times import FrameTimes


@TRANSFORMS.add
class LabelFrames(Transform):
    """Set ``label`` to the class of each sampled frame, -1 if it has none.

    Goes after a sampler. Required keys: those of ``SpanDataset``, ``frame_inds``, ``avg_fps``.

    Raises:
        BadVideo: As ``constant_times``.
    """

    def transform(self, results: dict) -> dict:
        """Set ``results['label']``, of type int64."""
        constant_times(results)
        labels = classes_at(results["frame_inds"], results)
        return {**results, "label": torch.from_numpy(labels)}


def classes_at(frames: np.ndarray, sample: Mapping) -> np.ndarray:
    """Return the class of frames, by number; a frame belongs to the span that holds its middle."""
    times = FrameTimes(sample["avg_fps"]).seconds(np.asarray(frames) + 0.5)
    labels = np.full(len(times), sample["background"], dtype=np.int64)
    for start, end, label in sample["spans"]:
        labels[(times >= start) & (times < end)] = int(label)
    return labels


@TRANSFORMS.add
@dataclass
class CoverFrames(FrameSampler):
    """Take clips of regular frames: in training some at random, in testing all of a video.

    Frames beyond the end are replaced by the last one. Also sets ``frame_step``, the number of
    frames of the file from one frame of a clip to the next.

    Args:
        clip_len: Number of frames per clip.
        frame_interval: Interval between frames at ``target_fps``.
        target_fps: Frame rate that the interval refers to. None for that of the file.
        overlap: Share of a clip that the next one covers too, in testing.
        clips: Number of clips in training, one after another without overlap.
        test_mode: Whether to cover the video.

    Raises:
        UserError: If ``overlap`` is not in [0, 1).
        BadVideo: If the frame rate is unknown, and there is a ``target_fps``; or, if the video has
            spans, as ``number_by_time``.
    """

    clip_len: int
    frame_interval: int = 1
    target_fps: float | None = None
    overlap: float = 0.5
    clips: int = 1
    test_mode: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.overlap < 1:
            raise UserError(f"overlap must be at least 0 and below 1, got {self.overlap}")

    def needs_times(self, results: dict) -> bool:
        """Whether the video has spans of time."""
        return "spans" in results

    def sample(self, total: int, results: dict) -> np.ndarray:
        """Choose frames (clips, T)."""
        step = float(rescale(results, self.frame_interval, self.target_fps))
        size, count = self.clip_len, math.ceil(total / step - 1e-6)  # in steps
        if not self.test_mode:
            first = np.random.randint(0, max(count - size * self.clips, 0) + 1)
            starts = first + size * np.arange(self.clips)
        elif not self.overlap:
            starts = np.arange(0, max(count, 1), size)
        else:
            free, stride = max(count - size, 0), max(round(size * (1 - self.overlap)), 1)
            starts = np.array([*range(0, free, stride), free])
        results["frame_step"] = step
        frames = (starts[:, None] + np.arange(self.clip_len)) * step + 1e-6
        return np.minimum(frames.astype(int), total - 1)


@TRANSFORMS.add
@dataclass
class FramesAround(FrameSampler):
    """Take a clip of regular frames around a moment, which ``timestamp`` gives in seconds.

    Frames before the begin or after the end are replaced by the first or last one: of the video, or
    of the ``shot``, if the sample has it.

    Args:
        clip_len: Number of frames.
        frame_interval: Interval between frames at ``target_fps``.
        target_fps: Frame rate that the interval refers to. None for that of the file.

    Raises:
        BadVideo: As ``number_by_time``.
    """

    clip_len: int
    frame_interval: int = 1
    target_fps: float | None = None

    def needs_times(self, results: dict) -> bool:
        """Return True: a box stands at a time."""
        return True

    def sample(self, total: int, results: dict) -> np.ndarray:
        """Choose frames (1, T)."""
        step = rescale(results, self.frame_interval, self.target_fps)
        steps = (np.arange(self.clip_len) - self.clip_len // 2) * step
        center = known_times(results).at(results["timestamp"])
        first, last = results.get("shot") or (0, total - 1)
        return np.clip(center + np.floor(steps + 1e-6).astype(int), first, last)[None]


@TRANSFORMS.add
@dataclass
class LoadFeatures(Transform):
    """Read what ``mmvidformer features --every N --files`` saved of a video, as tokens of a clip.

    ``filename`` is the file of the features, or its address (``SpanDataset`` with
    ``suffix='.npz'``). A row stands for the N frames in the middle of its window. Added keys:
    ``imgs`` (1, T, 1, 1, D), and those of ``CoverFrames``.

    Args:
        rows: Number of successive rows in training, drawn at random; a shorter video repeats its
            last row. None: all, for testing.

    Raises:
        FileNotFoundError: If there are no features of the video.
        StorageError: If remote storage does not answer.
        UserError: If the file has other content.
    """

    rows: int | None = None
    reads_files: ClassVar[bool] = True  # for SafeDataset

    def transform(self, results: dict) -> dict:
        """Read the features."""
        with np.load(io.BytesIO(read_file(results["filename"]))) as file:
            saved = {name: file[name] for name in file}
        missing = {"features", "every", "span", "frames", "fps"} - {*saved}
        if missing:
            raise UserError(f"{results['filename']} has no {', '.join(sorted(missing))}")
        values, every = saved["features"], int(saved["every"])
        count = self.rows or len(values)
        start = np.random.randint(0, max(len(values) - count, 0) + 1)
        places = start + np.arange(count)
        tokens = values[np.minimum(places, len(values) - 1)]
        results |= dict(imgs=tokens[None, :, None, None].astype(np.float32), frame_step=every)
        results |= dict(frame_inds=places * every + (int(saved["span"]) - every) / 2)
        results |= dict(total_frames=int(saved["frames"]), avg_fps=float(saved["fps"]))
        return results | dict(num_clips=1, start_index=0)

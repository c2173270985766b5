"""Transforms of videos with spans, boxes or features."""

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from mmvidformer.catalog import TRANSFORMS
from mmvidformer.data.transforms.base import Transform
from mmvidformer.data.transforms.rates import constant_times, known_times, rescale
from mmvidformer.data.transforms.sampling import FrameSampler
from mmvidformer.errors import UserError
from mmvidformer.storage.files import read_file, read_json
from mmvidformer.video.times import FrameTimes

LEAST_SHOWN = 0.5  # of a segment, in the rows that are drawn
DRAWS = 200  # at most, until rows show a segment


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
    ``suffix='.npz'``). A row stands for the N frames in the middle of its window. Published
    features in ``.npy``, (rows, D), say nothing of their frames: give ``facts``. Added keys:
    ``imgs`` (1, T, 1, 1, D), and those of ``CoverFrames``.

    Args:
        rows: Number of successive rows in training, drawn at random, as in ActionFormer so that
            they show half of a segment; a shorter video repeats its last row. None: all, for
            testing.
        least: Least share of the rows of a shorter video that is taken in training.
        facts: JSON in ActivityNet's format, with ``fps`` and ``duration`` of each video.
        every: With ``facts``, number of frames from row to row.
        span: With ``facts``, number of frames of a row's window.

    Raises:
        FileNotFoundError: If there are no features of the video.
        StorageError: If remote storage does not answer.
        UserError: If a file has other content.
    """

    rows: int | None = None
    least: float = 1.0
    facts: str | None = None
    every: int = 1
    span: int = 1
    reads_files: ClassVar[bool] = True  # for SafeDataset

    def transform(self, results: dict) -> dict:
        """Read the features."""
        saved = self._read(results["filename"])
        values, every, fps = saved["features"], int(saved["every"]), float(saved["fps"])
        first = (int(saved["span"]) - every) / 2
        start, end, total = 0, len(values), int(saved["frames"])
        if self.rows is not None:
            spans = np.asarray(results.get("spans", ()), float).reshape(-1, 3)[:, :2]
            rows = (FrameTimes(fps).numbers(spans) - first) / every
            start, end = self._draw(len(values), rows)
        if end < len(values):
            total = int(first + end * every)
        places = start + np.arange(self.rows or len(values))
        tokens = values[np.minimum(places, end - 1)]
        results |= dict(imgs=tokens[None, :, None, None].astype(np.float32), frame_step=every)
        results |= dict(frame_inds=places * every + first, total_frames=total, avg_fps=fps)
        return results | dict(num_clips=1, start_index=0)

    def _read(self, filename: str) -> Mapping[str, Any]:
        """Return features, and which frames they are of."""
        content = io.BytesIO(read_file(filename))
        if self.facts is not None:
            name = Path(filename).stem
            video = _read_facts(self.facts).get(name)
            if not isinstance(video, dict) or not {"fps", "duration"} <= video.keys():
                raise UserError(f"{self.facts} has no fps and duration of {name}")
            frames = round(FrameTimes(video["fps"]).numbers(video["duration"]))
            where = dict(every=self.every, span=self.span, fps=video["fps"], frames=frames)
            return dict(features=np.load(content), **where)
        with np.load(content) as file:
            saved = {name: file[name] for name in file}
        missing = {"features", "every", "span", "frames", "fps"} - {*saved}
        if missing:
            raise UserError(f"{filename} has no {', '.join(sorted(missing))}")
        return saved

    def _draw(self, total: int, segments: np.ndarray) -> tuple[int, int]:
        """Draw successive rows: the first one, and the one after the last."""
        least = max(round(self.least * total), 1)
        size = min(self.rows, np.random.randint(least, total + 1))
        for _ in range(DRAWS):
            start = np.random.randint(0, total - size + 1)
            shown = np.diff(segments.clip(start, start + size), axis=1)
            if not len(segments) or (shown >= LEAST_SHOWN * np.diff(segments, axis=1)).any():
                break
        return start, start + size


@cache
def _read_facts(file: str) -> dict[str, Any]:
    """Return what a JSON in ActivityNet's format says of each video."""
    content = read_json(file)
    return content.get("database", content)

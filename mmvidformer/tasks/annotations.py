"""Annotations in csv files: numbers of videos, and classes of spans of time."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os.path import join
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from mmaction.datasets import VideoDataset
from mmcv.transforms import BaseTransform

from mmvidformer.datasets.csv_rows import read_rows
from mmvidformer.datasets.transforms.rates import constant_times, rescale
from mmvidformer.datasets.transforms.sampling import FrameSampler
from mmvidformer.registry import DATASETS, TRANSFORMS
from mmvidformer.video.times import FrameTimes

BACKGROUND = "background"  # class of the time that no span covers
OWN = ("video", "split", "start", "end", "label")  # columns that hold no numbers
NO_LABEL = -1


class Span(NamedTuple):
    """A part of a video, in seconds, with the name of its class and the line of the file."""

    start: float
    end: float
    label: str
    where: str


def read_values(file: str | Path) -> tuple[tuple[str, ...], dict[str, tuple[list[float], str]]]:
    """Read a csv file with the column ``video`` and a column for each value.

    Returns:
        Names of the values; and the values, with their line, by video.

    Raises:
        ValueError: If a value is not finite or a video is there twice; names file and line.
    """
    names: tuple[str, ...] = ()
    found: dict[str, tuple[list[float], str]] = {}
    for row, where in read_rows(file, "video"):
        names = names or value_names(row)
        if not names:
            raise ValueError(f"{file} must have a column of values beside video")
        video = read_video(row, where)
        if video in found:
            raise ValueError(f"{where}: {video} is already in {found[video][1]}")
        found[video] = [read_float(row, name, where) for name in names], where
    return names, found


def value_names(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of a csv file that hold values."""
    return tuple(name for name in columns if name and name not in OWN)


def read_video(row: Mapping[str, str], where: str) -> str:
    """Read the path of a row's video; a ``ValueError`` if there is none."""
    if not row["video"]:
        raise ValueError(f"{where}: video is empty")
    return row["video"]


def read_spans(file: str | Path, overlap: bool = False) -> dict[str, list[Span]]:
    """Read a csv file with the columns ``video``, ``start``, ``end`` (seconds) and ``label``.

    A row with a video alone is a video without a span. Returns the spans of each video, in order.

    Args:
        file: The file.
        overlap: Whether spans of a video may overlap.

    Raises:
        ValueError: As ``span_faults`` describes; names file and line.
    """
    return group_spans(read_rows(file, "video", "start", "end", "label"), overlap)


def group_spans(
    rows: Iterable[tuple[dict[str, str], str]], overlap: bool = False
) -> dict[str, list[Span]]:
    """Return the spans of each video in rows and their lines; see ``read_spans``."""
    found: dict[str, list[Span]] = {}
    for row, where in rows:
        found.setdefault(read_video(row, where), []).extend(read_span(row, where))
    found = {video: sorted(spans) for video, spans in found.items()}
    if fault := next(span_faults(found, overlap), None):
        raise ValueError(fault)
    return found


def read_span(row: Mapping[str, str], where: str) -> list[Span]:
    """Read the span of a row, if it has one; raises a ``ValueError`` if a time is no number."""
    if not any(row[name] for name in ("start", "end", "label")):
        return []
    start, end = (read_float(row, name, where) for name in ("start", "end"))
    return [Span(start, end, row["label"] or "", where)]


def span_faults(videos: Mapping[str, Sequence[Span]], overlap: bool = False) -> Iterator[str]:
    """Describe what is wrong in the spans of videos: class, an end before the start, overlap."""
    for spans in videos.values():
        for start, end, label, where in spans:
            if not label:
                yield f"{where}: label is empty"
            if len(label.splitlines()) > 1:
                yield f"{where}: label {label!r} has a line break"
            if not 0 <= start < end:
                yield f"{where}: start must be at least 0 and below end, got {start:g} to {end:g}"
        for one, two in pairwise(spans):
            if two.start < one.end and not overlap:
                times = f"{two.start:g} s, before {one.end:g} s"
                yield f"{two.where}: starts at {times}, the end of {one.where}"


def read_float(row: Mapping[str, str], column: str, where: str) -> float:
    """Read a finite number of a row; errors name file, line and value."""
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where}: {column} must be a number, got {row[column]!r}")
    return value


def need_rows(rows: list[dict], file: str) -> list[dict]:
    """Return the rows of a file, or raise a ``ValueError`` if there is none."""
    if not rows:
        raise ValueError(f"{file} has no rows")
    return rows


@DATASETS.register_module()
class ValueDataset(VideoDataset):
    """Videos with numbers: a csv file with the column ``video`` and a column for each value.

    ``gt_label`` of a sample holds the values. Arguments are those of MMAction2's ``VideoDataset``.

    Raises:
        ValueError: As ``read_values``.
    """

    def load_data_list(self) -> list[dict]:
        """Read the annotation file."""
        folder = self.data_prefix["video"] or ""
        rows = [
            dict(filename=join(folder, video), label=torch.tensor(values), where=where)
            for video, (values, where) in read_values(self.ann_file)[1].items()
        ]
        return need_rows(rows, self.ann_file)


@DATASETS.register_module()
class SpanDataset(VideoDataset):
    """Videos with classes of spans of time: ``video``, ``start``, ``end`` and ``label`` in a csv.

    A sample has its spans (n, 3), start and end in seconds and class, for ``LabelFrames`` and
    metrics. ``metainfo`` holds the classes, a list or a file of their names. The class of other
    time is that with the name ``'background'``, if there is one; else it does not count.

    Args:
        *args: Arguments of MMAction2's ``VideoDataset``.
        overlap: Whether spans of a video may overlap.
        suffix: What is added to the names of the files: ``'.npz'`` for saved features.
        **kwargs: Arguments of MMAction2's ``VideoDataset``.

    Raises:
        ValueError: As ``read_spans``, and if a label is no class.
    """

    def __init__(
        self, *args: object, overlap: bool = False, suffix: str = "", **kwargs: object
    ) -> None:
        self.overlap, self.suffix = overlap, suffix
        super().__init__(*args, **kwargs)

    def load_data_list(self) -> list[dict]:
        """Read the annotation file."""
        folder, found = self.data_prefix["video"] or "", []
        numbers = {name: number for number, name in enumerate(self.metainfo["classes"])}
        for video, spans in read_spans(self.ann_file, self.overlap).items():
            for one in spans:
                if one.label not in numbers:
                    known = ", ".join([*numbers][:20])
                    raise ValueError(f"{one.where}: {one.label!r} is no class; they are {known}")
            rows = [(one.start, one.end, numbers[one.label]) for one in spans]
            info = dict(filename=join(folder, f"{video}{self.suffix}"))
            info["spans"] = np.array(rows, dtype=float).reshape(-1, 3)
            found.append(info | {"background": numbers.get(BACKGROUND, NO_LABEL)})
        return need_rows(found, self.ann_file)


@TRANSFORMS.register_module()
class LabelFrames(BaseTransform):
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


@TRANSFORMS.register_module()
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
        ValueError: If ``overlap`` is not in [0, 1).
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
            raise ValueError(f"overlap must be at least 0 and below 1, got {self.overlap}")

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

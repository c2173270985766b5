"""Annotations of spans of time in csv files, and what reads them: classes of seconds of videos."""

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PureWindowsPath
from typing import NamedTuple

import numpy as np
import torch
from mmaction.datasets import VideoDataset
from mmcv.transforms import BaseTransform

from mmvidformer.data.tables import Row, Table, read_float, read_table
from mmvidformer.data.transforms.rates import constant_times, rescale
from mmvidformer.data.transforms.sampling import FrameSampler
from mmvidformer.errors import UserError
from mmvidformer.registry import DATASETS, TRANSFORMS
from mmvidformer.tasks.reading import Annotations, unknown_class
from mmvidformer.tasks.span_samples import NO_LABEL, SpanSamples
from mmvidformer.video.times import FrameTimes

BACKGROUND = "background"  # class of the time that no span covers
COLUMNS = ("video", "start", "end", "label")
MOMENT_COLUMNS = ("video", "time", "label")
MOST_NAMES = 5  # of videos that a warning names


class Span(NamedTuple):
    """A part of a video, in seconds, with the name of its class and the line of the file."""

    start: float
    end: float
    label: str
    where: str


def read_spans(file: str | Path, overlap: bool = False) -> dict[str, list[Span]]:
    """Return the spans, or moments, of each video of a csv file, in order.

    Raises:
        UserError: If something is wrong in the file (``parse_spans``); names file and line.
    """
    return parse_spans(read_table(file), overlap, moments=overlap).check().videos


def match_spans(table: Table, videos: Iterable[str]) -> dict[str, list[Span]]:
    """Return the spans, or moments, of videos by path; a warning names a video without any.

    Names in the table are relative to its folder. A name without such a file is that of the only
    video whose file is called so.

    Raises:
        UserError: As ``read_spans``.
    """
    spans = parse_spans(table, overlap=True, moments=True).check().videos
    by_path = {(table.folder / name).resolve(): name for name in spans}
    by_name, videos = defaultdict(list), [*videos]
    for name in spans:
        by_name[PureWindowsPath(name).name].append(name)
    counts = Counter(Path(video).name for video in videos)
    spans_of: dict[str, list[Span]] = {}
    for video in videos:
        path = Path(video)
        names = by_name[path.name] if counts[path.name] == 1 else []
        if path.resolve() in by_path:
            names = [by_path[path.resolve()]]
        if len(names) == 1:
            spans_of[video] = spans[names[0]]
        else:
            known = ", ".join([*spans][:MOST_NAMES]) or "no video"
            print(f"{table.file} has no rows for {video}; it has those of {known}", file=sys.stderr)
    return spans_of


def parse_spans(
    table: Table,
    overlap: bool = False,
    classes: Sequence[str] = (),
    moments: bool = False,
) -> Annotations:
    """Read a table with the columns ``video``, ``start``, ``end`` (seconds) and ``label``.

    Of moments, start and end are equal; a column ``time`` may stand for both. A row with a video
    alone is a video without a span. The spans of each video are in order.

    Args:
        table: The rows of a file.
        overlap: Whether spans of a video may overlap.
        classes: Names of the classes; empty if all names are allowed.
        moments: Whether spans may have no length.

    Raises:
        UserError: If the table has not these columns.
    """
    annotations = Annotations(table)
    columns = MOMENT_COLUMNS if moments and "time" in table.columns else COLUMNS
    annotations.add_rows(table.read(*columns, times=columns[1:-1]), _read_span)
    for video, spans in annotations.videos.items():
        annotations.videos[video] = sorted(spans)
    known = dict.fromkeys(classes)  # in order, and found at once
    for spans in annotations.videos.values():
        annotations.faults += _span_faults(spans, overlap, known, moments)
    return annotations


def _read_span(row: Row, place: str) -> list[Span]:
    """Read the span of a row, if it has one; raises a ``UserError`` if a time is no number."""
    has_time = bool(row.get("time")) or "start" not in row
    columns = ("time", "time") if has_time else ("start", "end")
    if not any(row[name] for name in (*columns, "label")):
        return []
    start, end = (read_float(row, name, place) for name in columns)
    return [Span(start, end, row["label"] or "", place)]


def _span_faults(
    spans: Sequence[Span], overlap: bool, classes: Collection[str], moments: bool
) -> Iterator[str]:
    """Describe what is wrong in the spans of a video: class, an end before the start, overlap."""
    for start, end, label, place in spans:
        if not label:
            yield f"{place}: label is empty"
        elif classes and label not in classes:
            yield unknown_class(label, classes, place)
        if len(label.splitlines()) > 1:
            yield f"{place}: label {label!r} has a line break"
        if moments and start == end:
            if start < 0:
                yield f"{place}: time must be at least 0, got {start:g}"
        elif not 0 <= start < end:
            yield f"{place}: start must be at least 0 and below end, got {start:g} to {end:g}"
    for span, following in pairwise(spans):
        if following.start < span.end and not overlap:
            times = f"{following.start:g} s, before {span.end:g} s"
            yield f"{following.where}: starts at {times}, the end of {span.where}"


@DATASETS.register_module()
class SpanDataset(VideoDataset):
    """Videos with classes of spans of time: ``video``, ``start``, ``end`` and ``label`` in a csv.

    A sample has its spans (n, 3), start and end in seconds and class, for ``LabelFrames`` and
    metrics. ``metainfo`` holds the classes, a list or a file of their names. The class of other
    time is that with the name ``'background'``, if there is one; else it does not count.

    Args:
        *args: Arguments of MMAction2's ``VideoDataset``.
        overlap: Whether spans of a video may overlap.
        moments: Whether spans may have no length.
        suffix: What is added to the names of the files: ``'.npz'`` for saved features.
        **kwargs: Arguments of MMAction2's ``VideoDataset``.

    Raises:
        UserError: As ``read_spans``, and if a label is no class.
    """

    def __init__(
        self,
        *args: object,
        overlap: bool = False,
        moments: bool = False,
        suffix: str = "",
        **kwargs: object,
    ) -> None:
        self.overlap, self.moments, self.suffix = overlap, moments, suffix
        super().__init__(*args, **{**kwargs, "serialize_data": False})

    def load_data_list(self) -> SpanSamples:
        """Read the annotation file."""
        folder, classes = self.data_prefix["video"] or "", list(self.metainfo["classes"])
        numbers = {name: number for number, name in enumerate(classes)}
        annotations = parse_spans(
            read_table(self.ann_file), self.overlap, classes, moments=self.moments
        ).check_rows()
        background = numbers.get(BACKGROUND, NO_LABEL)
        return SpanSamples(annotations.videos, numbers, folder, self.suffix, background)


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

"""What outputs for annotation tools share: a part for each video, which states frames."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from mmvidformer.data.folders import place_below
from mmvidformer.data.sources import Source
from mmvidformer.errors import UserError
from mmvidformer.sinks.base import Begun, Sink
from mmvidformer.storage.names import spell
from mmvidformer.storage.targets import Target
from mmvidformer.tasks.answers import Answers
from mmvidformer.tasks.joined_windows import JoinedWindows
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.video.video import Video

PARTS_OF_TIME = ("windows", "steps", "segments", "moments")  # for tools without boxes


class SinkBox(NamedTuple):
    """A box at a frame, counted from 0; corners are shares of the frame."""

    frame: int
    corners: tuple[float, ...]
    labels: tuple[str, ...]
    score: float
    track: str


class FoundSegment(NamedTuple):
    """A segment, or a moment, of one class."""

    label: str
    start: float
    end: float
    score: float

    @staticmethod
    def merge(segments: Iterable["FoundSegment"]) -> list["FoundSegment"]:
        """Make one of the segments of a class that overlap; the others stay, in order of time."""
        merged: dict[str, list[FoundSegment]] = {}
        for segment in sorted(segments, key=lambda segment: segment.start):
            of_label = merged.setdefault(segment.label, [])
            if of_label and segment.start < of_label[-1].end:
                last = of_label.pop()
                end, score = max(last.end, segment.end), max(last.score, segment.score)
                segment = FoundSegment(segment.label, last.start, end, score)
            of_label.append(segment)
        joined = (segment for of_label in merged.values() for segment in of_label)
        return sorted(joined, key=lambda segment: segment.start)


@dataclass
class SinkVideo:
    """A video that an output is about.

    Attributes:
        path: Its path.
        frames: The opened video.
        height: Height in pixels.
        width: Width in pixels.
        segments: Those that were found, or moments, of a tool that writes them at the end.
        boxes: Those that were found; at the end in the order of time.
    """

    path: str
    frames: Video
    height: int
    width: int
    segments: list[FoundSegment] = field(default_factory=list)
    boxes: list[SinkBox] = field(default_factory=list)


class VideoSink(Sink):
    """An output with a part for each video: labels, segments and boxes.

    A subclass opens its file in ``__init__``, and writes in the methods below. A
    video without predictions has a part, too, if it is begun and ended.

    Attributes:
        suffix: Suffix of the file of a video, where each has one: the target is that of one video,
            or a folder. ``''``: the target is a file of all videos.

    Raises:
        UserError: If a source is no file, or the model predicts values.
    """

    suffix = ""

    def __init__(self) -> None:
        self._joined = JoinedWindows()
        self._source: Source | None = None
        self._video: SinkVideo | None = None

    @classmethod
    def targets(cls, target: Path, sources: Sequence[Source]) -> list[Target]:
        """Return the files; raise a ``UserError`` if a source is no file, or one is of several."""
        for source in sources:
            if source.is_stream:
                raise UserError(f"{target}: annotations are of video files, got {source.title}")
        if not cls.suffix:
            return super().targets(target, sources)
        is_folder = target.is_dir() or not target.suffix
        if not is_folder and target.suffix.lower() != cls.suffix:
            raise UserError(f"{target} must be a {cls.suffix} file, or a folder")
        if not is_folder and len(sources) > 1:
            raise UserError(f"{target} is of one video, got {len(sources)} sources; name a folder")
        return [(source.name, cls._file_in(target, source)) for source in sources]

    @classmethod
    def check_task(cls, task: Answers) -> None:
        """It is for classes."""
        super().check_task(task)
        if task.activation is None:
            raise UserError(f"{cls.__name__} has no place for values, only for classes")

    def file_of(self, target: Path, video: SinkVideo) -> Path:
        """Return the file of a video, where each has one."""
        source = self._source or Source(video.path, Path(video.path).parent)
        return self._file_in(target, source)

    @classmethod
    def _file_in(cls, target: Path, source: Source) -> Path:
        if target.suffix and not target.is_dir():
            return target
        folder = source.folder or Path(source.name).parent
        return target / place_below(source.name, folder).with_suffix(cls.suffix)

    def begin(self, begun: Begun) -> Sink:
        """Take note of the source."""
        self._source = begun.source
        return self

    def end(self) -> None:
        """End the part of the source, which may have no predictions."""
        if self._video is None and self._source is not None:
            self._open(self._source.name, None)
        self._end_video()
        self._source = None

    def fail(self, video: str, error: str) -> None:
        """End the part of a source that cannot be read further: what it has is kept."""
        self._end_video()
        self._source = None

    def begin_video(self, video: SinkVideo, prediction: Prediction | None) -> None:
        """Begin the part of a video; ``prediction`` is the first of it, if it has any."""

    def write_label(self, video: SinkVideo, prediction: Prediction) -> None:
        """Write an answer for the whole video."""
        raise UserError(f"{type(self).__name__} has no place for labels of whole videos")

    def write_segment(self, video: SinkVideo, segment: Prediction) -> None:
        """Write a segment, or a moment. Default: keep it until the video ends."""
        video.segments += list_segments(segment)

    def end_video(self, video: SinkVideo) -> None:
        """End the part of a video."""

    def append(self, prediction: Prediction) -> None:
        """Take the next prediction of a video, or the first of the next video."""
        video = self._begin(prediction)
        if prediction.box:
            video.boxes.append(_make_box(prediction, video))
        elif prediction.seconds is None:
            self.write_label(video, prediction)
        else:
            self._write_segments(self._joined.add(prediction))

    def finish(self) -> None:
        """End the last video. A subclass writes then what comes after it."""
        self._end_video()

    def _begin(self, prediction: Prediction) -> SinkVideo:
        if self._video is not None and self._video.path == prediction.source:
            return self._video
        path = prediction.source
        if path is None or not Path(path).is_file():
            name = "a stream" if path is None else spell(path)
            raise UserError(f"{type(self).__name__} is of video files, got {name}")
        self._end_video()
        return self._open(path, prediction)

    def _open(self, path: str, prediction: Prediction | None) -> SinkVideo:
        frames = Video.open(path)
        video = SinkVideo(path, frames, *frames.size)
        self.begin_video(video, prediction)
        self._video = video
        return video

    def _write_segments(self, segments: Sequence[Prediction]) -> None:
        if self._video is not None:
            for segment in segments:
                self.write_segment(self._video, segment)

    def _end_video(self) -> None:
        self._write_segments(self._joined.end())
        video, self._video = self._video, None  # also if it cannot be written
        if video is not None:
            video.boxes.sort()
            self.end_video(video)


def list_labels(prediction: Prediction, output: str) -> list[tuple[str, float]]:
    """Return the classes that an output finds, with their scores: the best one, or several.

    Several are those that reach the threshold of the task; if none does, it is the best one.
    """
    classes = prediction.classes(len(prediction.names[output]))[output]
    threshold = math.inf if prediction.task.threshold is None else prediction.task.threshold
    return [(label, score) for label, score in classes if score >= threshold] or classes[:1]


def list_segments(prediction: Prediction) -> list[FoundSegment]:
    """Return the classes of a segment (``list_labels``), each with its times."""
    start, end = prediction.span
    return [
        FoundSegment(label, start, end, score)
        for output in prediction.scores
        for label, score in list_labels(prediction, output)
    ]


def list_runs(boxes: Sequence[SinkBox]) -> Iterator[list[SinkBox]]:
    """Yield the boxes of each track as long as its labels stay; those without a track alone."""

    def track_of(box: SinkBox) -> str:
        return box.track

    for track, group in groupby(sorted(boxes, key=track_of), track_of):
        tracked = sorted(group)
        if not track:
            yield from ([box] for box in tracked)
            continue
        for _, run in groupby(tracked, lambda box: box.labels):
            yield [*run]


def _make_box(prediction: Prediction, video: SinkVideo) -> SinkBox:
    output = next(iter(prediction.scores))
    classes = list_labels(prediction, output)
    labels = tuple(label for label, _ in classes)
    track = prediction.track
    return SinkBox(
        int(video.frames.at(prediction.span[0])),
        tuple(prediction.box or ()),
        labels,
        classes[0][1],
        "" if track is None else str(track),
    )

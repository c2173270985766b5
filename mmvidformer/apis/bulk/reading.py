"""Clips of many videos, which workers read group by group."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mmvidformer.apis.pipeline import VideoPipeline
from mmvidformer.apis.shots import find_windows
from mmvidformer.apis.windows import times_of
from mmvidformer.data.sources import VideoSource
from mmvidformer.errors import MissingFile, UserError
from mmvidformer.storage.errors import StorageError
from mmvidformer.video.errors import BadVideo, first_line
from mmvidformer.video.processes import Lost, Named, run_groups
from mmvidformer.video.progress import reading

logger = logging.getLogger("mmvidformer")
_silent = 0  # last videos of this process of which storage gave nothing

# What processes import, once for all.
PRELOADED = ("mmvidformer.apis.recognizer", "mmvidformer.data.transforms.of_mmaction")
VIDEOS_OF_WORKER = 8  # at least: fewer are read before a worker has started
VIDEOS_AT_ONCE = 16  # whose clips come in turns, one of each worker
TIME_LIMIT = 300.0  # seconds without a new frame or packet, after which a video counts as bad
MOST_SILENT = 3  # videos after each other of which storage gives nothing, when it is given up

Where = dict[str, Any]  # what else is known of a clip, such as its ``seconds``
# From a video to its clips, samples of a pipeline, or an error if it is bad.
ReadClips = Callable[[VideoSource], Iterator[tuple[dict, Where]]]


class Clip(NamedTuple):
    """What the model sees at once of a video, or why the video cannot be read."""

    name: str
    sample: dict
    where: Where
    error: str | None = None


class Batch(NamedTuple):
    """Clips that the model sees at once, and the names of the videos that end with them."""

    clips: list[Clip]
    finished: list[str]


@dataclass(frozen=True)
class WholeVideos:
    """Reads a video as a clip, or the views of the test pipeline."""

    pipeline: VideoPipeline

    def __call__(self, video: VideoSource) -> Iterator[tuple[dict, Where]]:
        """Yield the sample of a video."""
        yield self.pipeline.read(self.pipeline.open(video)), {}


@dataclass(frozen=True)
class Windows:
    """Reads the windows of a video, as ``Recognizer.timeline`` does; they know their seconds.

    Args:
        pipeline: The test pipeline.
        window: Length of a window in seconds; None: 2.
        stride: Seconds from one window to the next; None: about half a window.
        stage_frames: Number of frames that the model's first stage sees (``frames_of_stage``).
        cuts: How cuts are found, which no window crosses (``find_windows``).
    """

    pipeline: VideoPipeline
    window: float | None
    stride: float | None
    stage_frames: int | None
    cuts: str | None = None

    def __call__(self, video: VideoSource) -> Iterator[tuple[dict, Where]]:
        """Yield the sample of each window."""
        opened = self.pipeline.open(video)
        times = times_of(opened)  # which numbers frames by time
        sizes = self.window, self.stride, self.stage_frames
        for window in find_windows(self.pipeline, opened, *sizes, self.cuts):
            where = dict(seconds=times.span(*window.span), shot=window.shot)
            yield self.pipeline.read(opened, window.span), where


@dataclass(frozen=True)
class Unread:
    """Hands on the video alone, for models that read it themselves."""

    def __call__(self, video: VideoSource) -> Iterator[tuple[dict, Where]]:
        """Yield the video."""
        yield dict(source=video), {}


@dataclass(frozen=True)
class GroupReader:
    """Reads batches of the clips of a group of videos.

    No batch has clips of two groups, so that a group always gets the same answers, whatever the
    processes and other groups are.

    Args:
        read_clips: Reads a video.
        batch_size: Most clips of a batch.
    """

    read_clips: ReadClips
    batch_size: int

    def __call__(self, group: Sequence[Named], touch: Callable[[str], None]) -> Iterator[Batch]:
        """Yield the batches; ``touch`` hears the name of each video before it is read."""
        clips: list[Clip] = []
        finished: list[str] = []
        for name, video in group:
            touch(name)
            for clip in self._clips_of(name, video):
                if len(clips) == self.batch_size:
                    yield Batch(clips, finished)
                    clips, finished = [], []
                clips.append(clip)
            finished.append(name)
        yield Batch(clips, finished)

    def _clips_of(self, name: str, video: VideoSource) -> Iterator[Clip]:
        try:
            clips = self.read_clips(video)
            while True:
                with reading():
                    sample, where = next(clips)
                note_answer()
                yield Clip(name, sample, where)
        except StopIteration:
            return
        except Exception as error:
            yield Clip(name, {}, {}, say_fault(error))


def say_fault(error: Exception) -> str:
    """Say why a video cannot be read; a bug is logged with its traceback.

    Raises:
        ImportError, UserError: The error itself, if it says that no video is to blame. Storage may
            fail for some videos, but not for ``MOST_SILENT`` after each other.
    """
    global _silent
    if isinstance(error, BadVideo):
        return error.reason
    is_of_storage = isinstance(error, StorageError)
    _silent += is_of_storage
    is_of_video = is_of_storage and _silent < MOST_SILENT or isinstance(error, MissingFile)
    if isinstance(error, ImportError | UserError) and not is_of_video:
        raise error
    if is_of_video:
        return str(error)
    logger.error("a bug, or a video of an unknown kind", exc_info=error)
    return f"{type(error).__name__}: {first_line(error)}"


def note_answer() -> None:
    """Say that a video was read, and so storage answers; see ``say_fault``."""
    global _silent
    _silent = 0


def read_groups(
    read_clips: ReadClips,
    groups: Sequence[Sequence[Named]],
    batch_size: int,
    workers: int = 0,
    time_limit: float = TIME_LIMIT,
) -> Iterator[Batch | Lost]:
    """Read groups of videos in at most ``workers`` processes, or in this one without any.

    The batches of a group are in order. See ``run_groups``.
    """
    videos = sum(map(len, groups))
    workers = min(workers, max(videos // VIDEOS_OF_WORKER, 1))
    reader = GroupReader(read_clips, batch_size)
    return run_groups(reader, groups, workers, time_limit, threads=1, preloaded=PRELOADED)

"""Clips of many videos, which workers read group by group."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import set_forkserver_preload
from typing import Any, NamedTuple

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from mmvidformer.apis.pipeline import VideoPipeline
from mmvidformer.apis.shots import list_shot_windows
from mmvidformer.apis.windows import in_frames, times_of
from mmvidformer.datasets.inputs import VideoSource
from mmvidformer.datasets.workers import init_worker
from mmvidformer.engine.launch import PRELOADED
from mmvidformer.storage.errors import StorageError

VIDEOS_OF_WORKER = 8  # at least: fewer are read before a worker has started
VIDEOS_AT_ONCE = 16  # whose clips come in turns, one of each worker

Where = dict[str, Any]  # what else is known of a clip, such as its ``seconds``
# From a video to its clips, samples of a pipeline; OSError or ValueError if it is bad.
ReadClips = Callable[[VideoSource], Iterator[tuple[dict, Where]]]
Named = tuple[str, VideoSource]  # a video with its name


class Clip(NamedTuple):
    """What the model sees at once of a video, or why the video cannot be read."""

    name: str
    sample: dict
    where: Where
    error: str | None = None


class Batch(NamedTuple):
    """Clips of a group of videos, and whether they are its last ones."""

    group: int
    clips: list[Clip]
    is_last: bool


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
        cuts: How cuts are found, which no window crosses (``list_shot_windows``).
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

        def find_period(size: int) -> int:
            return self.pipeline.period(size, times.rate, self.stage_frames)

        sizes = in_frames(times.rate, self.window, self.stride, find_period)
        for window in list_shot_windows(opened, *sizes, self.cuts):
            where = dict(seconds=times.span(*window.span), shot=window.shot)
            yield self.pipeline.read(opened, window.span), where


@dataclass(frozen=True)
class Unread:
    """Hands on the video alone, for models that read it themselves."""

    def __call__(self, video: VideoSource) -> Iterator[tuple[dict, Where]]:
        """Yield the video."""
        yield dict(source=video), {}


class GroupReader(IterableDataset):
    """Batches of the clips of groups of videos; a worker reads whole groups.

    No batch has clips of two groups, so that a group always gets the same answers, whatever the
    workers and other groups are.

    Args:
        read_clips: Reads a video.
        groups: Videos with their names, by group.
        batch_size: Most clips of a batch.
    """

    def __init__(
        self,
        read_clips: ReadClips,
        groups: Sequence[Sequence[Named]],
        batch_size: int,
    ) -> None:
        self.read_clips, self.groups, self.batch_size = read_clips, groups, batch_size

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for group in range(first, len(self.groups), step):
            clips: list[Clip] = []
            for clip in self._clips_of(group):
                if len(clips) == self.batch_size:
                    yield Batch(group, clips, is_last=False)
                    clips = []
                clips.append(clip)
            yield Batch(group, clips, is_last=True)

    def _clips_of(self, group: int) -> Iterator[Clip]:
        for name, video in self.groups[group]:
            try:
                for sample, where in self.read_clips(video):
                    yield Clip(name, sample, where)
            except StorageError:  # which says nothing of the video
                raise
            except (OSError, ValueError) as error:
                yield Clip(name, {}, {}, str(error))


def read_groups(
    read_clips: ReadClips,
    groups: Sequence[Sequence[Named]],
    batch_size: int,
    workers: int = 0,
) -> Iterator[Batch]:
    """Read groups of videos in at most ``workers`` processes, or in this one without any.

    The batches of a group are in order. So are groups of one batch each.
    """
    workers = min(workers, sum(map(len, groups)) // VIDEOS_OF_WORKER)
    dataset = GroupReader(read_clips, groups, batch_size)
    options: dict[str, Any] = dict(batch_size=None, collate_fn=_as_it_is)
    if workers:
        set_forkserver_preload(PRELOADED)
        options |= dict(num_workers=workers, worker_init_fn=init_worker)
        options |= dict(multiprocessing_context="forkserver")
    return iter(DataLoader(dataset, **options))


def _as_it_is(batch: Batch) -> Batch:
    return batch

"""Windows within the shots of a video: no window crosses a cut."""

import contextlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mmvidformer.apis.pipeline import VideoPipeline
from mmvidformer.apis.windows import in_frames, list_windows, times_of
from mmvidformer.video.choices import CONTENT, NONE
from mmvidformer.video.cuts import check_way, split_shots
from mmvidformer.video.errors import BadVideo
from mmvidformer.video.video import Video

LONGEST = 600  # seconds: shots of longer videos are not counted


class ShotWindow(NamedTuple):
    """A window of a video: its first and last frame, and the number of its shot, from 0."""

    first: int
    last: int
    shot: int = 0

    @property
    def span(self) -> tuple[int, int]:
        """First and last frame."""
        return self.first, self.last


def find_windows(
    pipeline: VideoPipeline,
    opened: dict,
    window: float | None = None,
    stride: float | None = None,
    stage_frames: int | None = None,
    cuts: str | None = None,
) -> list[ShotWindow]:
    """Return the windows of an opened video, whose frames are numbered by time then.

    They are those (``list_windows``) of each shot. A shot that is shorter than a window is one
    window.

    Args:
        pipeline: What opened it, and reads them.
        opened: The video.
        window: Seconds of a window; None: 2.
        stride: Seconds from one window to the next; None: about half a window.
        stage_frames: Number of frames that the model's first stage sees (``frames_of_stage``).
        cuts: How cuts are found (``video.cuts.find_cuts``); default: ``'content'``.

    Raises:
        UserError: As ``find_cuts``.
    """
    rate = times_of(opened).rate
    sizes = in_frames(rate, window, stride, lambda size: pipeline.period(size, rate, stage_frames))
    windows = []
    borders = [*list_shots(opened, cuts), opened["total_frames"]]
    for shot, (start, end) in enumerate(pairwise(borders)):
        for first, last in list_windows(end - start, *sizes):
            windows.append(ShotWindow(start + first, start + last, shot))
    return windows


def list_shots(opened: dict, cuts: str | None = None) -> list[int]:
    """Return the first frame of each shot of an opened video that ``times_of`` has seen.

    Args:
        opened: A result of ``VideoPipeline.open``.
        cuts: How cuts are found (``video.cuts.find_cuts``); default: ``'content'``.

    Raises:
        UserError: As ``find_cuts``.
    """
    if "array" in opened:
        video = Video.open(opened["array"], rate=opened.get("avg_fps") or 0.0)
    else:
        reader = opened["video_reader"]
        video = reader if isinstance(reader, Video) else Video.open(opened["filename"])
    return video.shots(cuts or CONTENT)


def stream_shots(
    images: Iterable[np.ndarray], cuts: str | None = None
) -> Iterator[tuple[int, Iterable[np.ndarray]]]:
    """Split the images of a stream at cuts; see ``split_shots``.

    Raises:
        UserError: If there is no such way.
    """
    check_way(cuts or CONTENT)
    return iter([(0, images)]) if cuts == NONE else split_shots(images)


def count_shots(path: Path) -> int:
    """Return the number of shots of a video; 1 if it takes more than ``LONGEST``.

    All frames are decoded. It is 1, too, for the files that decord reads and PyAV does not.
    """
    with contextlib.suppress(BadVideo):
        video = Video.open(path)
        if video.duration <= LONGEST:
            return len(video.shots())
    return 1

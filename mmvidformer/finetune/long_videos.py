"""Clips of long videos: minutes give a classifier of features many samples."""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mmvidformer.apis.pipeline import VideoPipeline
from mmvidformer.data.list_folders import LONG
from mmvidformer.data.sources import VideoSource

MOST = 99  # clips of a long video, which are then further apart; an odd number


@dataclass(frozen=True)
class LongVideoReader:
    """Reads the center view of a video, and then clips that cover it, if it is long.

    Args:
        pipeline: The validation pipeline, with one clip.
    """

    pipeline: VideoPipeline

    def __call__(self, video: VideoSource) -> Iterator[tuple[dict, dict]]:
        """Yield the samples of a video, with their number and how many there are."""
        opened = self.pipeline.open(video)
        rate = opened["avg_fps"]
        covering = cover_video(opened["total_frames"], rate, self.pipeline.span(rate))
        segments = [(0, sys.maxsize), *covering]
        for number, segment in enumerate(segments):
            yield self.pipeline.read(opened, segment), dict(number=number, count=len(segments))


def cover_video(frames: int, rate: float, span: float) -> list[tuple[int, int]]:
    """Return the first and last frames of clips that cover a long video with its center view.

    Args:
        frames: Number of frames of the video.
        rate: Frames per second.
        span: Number of frames that a clip spans; 0 if its frames spread over the video, which then
            is not long.
    """
    if not span or frames <= LONG * rate:
        return []
    size = math.ceil(span)
    count = min(math.ceil(frames / size) // 2 * 2 + 1, MOST)
    starts = np.linspace(0, max(frames - size, 0), count).round().astype(int).tolist()
    del starts[count // 2]  # the center view
    return [(start, start + size - 1) for start in starts]

"""Clips side by side over a whole video."""

import numpy as np
from mmcv.transforms import BaseTransform

from mmvidformer.datasets.transforms.frame_count import total_frames
from mmvidformer.registry import TRANSFORMS


def count_tiles(total_frames: int, span: int) -> int:
    """Clips of ``span`` frames that cover a video, at least one.

    What is left at the end gets a clip if it is at least half of one (TimeSformer, section 4.6:
    48 clips of 8.5 seconds for 410 seconds).
    """
    return max(1, int(total_frames / span + 0.5))


@TRANSFORMS.register_module()
class TileFrames(BaseTransform):
    """Cover a video by clips that follow each other without overlap or gap.

    TimeSformer's test on HowTo100M (section 4.6), where the scores of the clips are averaged. The
    k-th clip begins at frame ``k T r``; in the last one, frames after the video's end are replaced
    by its last frame.

    Comes in place of ``SampleFrames``. With the key ``tiles`` (first clip, number of clips) only
    those are taken; ``mmvidformer.TiledVideoDataset`` sets it. Required keys: ``total_frames``,
    ``start_index``. Added: ``frame_inds``, ``clip_len``, ``frame_interval``, ``num_clips``.

    Args:
        clip_len: Frames T of a clip.
        frame_interval: Frames r from one to the next.

    Raises:
        ValueError: If either is not positive, or a video has no frames.
    """

    def __init__(self, clip_len: int, frame_interval: int = 1) -> None:
        if min(clip_len, frame_interval) < 1:
            raise ValueError(
                f"clip_len and frame_interval must be at least 1, got {clip_len}, {frame_interval}"
            )
        self.clip_len = clip_len
        self.frame_interval = frame_interval

    @property
    def span(self) -> int:
        """Frames from the start of a clip to that of the next."""
        return self.clip_len * self.frame_interval

    def transform(self, results: dict) -> dict:
        """Choose ``results['frame_inds']``."""
        total = total_frames(results)
        first, count = results.get("tiles", (0, count_tiles(total, self.span)))
        steps = first * self.span + np.arange(count * self.clip_len) * self.frame_interval
        results["frame_inds"] = np.minimum(steps, total - 1) + results["start_index"]
        results["clip_len"] = self.clip_len
        results["frame_interval"] = self.frame_interval
        results["num_clips"] = count
        return results

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(clip_len={self.clip_len}, frame_interval={self.frame_interval})"
        )

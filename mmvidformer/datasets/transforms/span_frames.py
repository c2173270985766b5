"""The sampling of PySlowFast, which the published TimeSformer weights were trained with."""

import numpy as np
from mmcv.transforms import BaseTransform

from mmvidformer.datasets.transforms.frame_count import total_frames
from mmvidformer.registry import TRANSFORMS


@TRANSFORMS.register_module()
class SpanFrames(BaseTransform):
    """Spread the frames of a clip evenly over a span of time, its last frame included.

    A clip of T frames at interval r spans ``r T`` frames at ``target_fps``, and its k-th frame is
    ``floor(start + k (span - 1) / (T - 1))``: for 8 frames at interval 32 the step is 36.4 frames,
    where MMAction2's ``SampleFrames`` takes every 32nd. Frames after the video's end are replaced
    by its last one. In training the start is uniform over all that fit; in testing the k-th of K
    clips starts at ``k / K`` of them, so that a single clip starts with the video (the TimeSformer
    paper takes it from the middle, as ``SampleFrames`` does).

    Comes in place of ``SampleFrames``. Required keys: ``total_frames``, ``start_index``, and
    ``avg_fps`` unless ``target_fps`` is None. Added: ``frame_inds``, ``clip_len``,
    ``frame_interval``, ``num_clips``.

    Args:
        clip_len: Frames T of a clip.
        frame_interval: Interval r at ``target_fps``.
        num_clips: Clips K of a video.
        target_fps: Frames a second that the interval is meant for; None for those of the file.
        test_mode: Clips at fixed places.

    Raises:
        ValueError: If a count is not positive, or a video has no frames.
    """

    def __init__(
        self,
        clip_len: int,
        frame_interval: int,
        num_clips: int = 1,
        target_fps: float | None = 30,
        test_mode: bool = False,
    ) -> None:
        if min(clip_len, frame_interval, num_clips) < 1:
            raise ValueError(
                "clip_len, frame_interval and num_clips must be at least 1, "
                f"got {clip_len}, {frame_interval} and {num_clips}"
            )
        self.clip_len = clip_len
        self.frame_interval = frame_interval
        self.num_clips = num_clips
        self.target_fps = target_fps
        self.test_mode = test_mode

    def transform(self, results: dict) -> dict:
        """Choose ``results['frame_inds']``."""
        total = total_frames(results)
        span = self.clip_len * self.frame_interval
        if self.target_fps is not None:
            span *= results["avg_fps"] / self.target_fps
        free = max(total - span, 0)
        if self.test_mode:
            starts = free * np.arange(self.num_clips) / self.num_clips
        else:
            starts = np.random.uniform(0, free, self.num_clips)
        steps = np.linspace(0, span - 1, self.clip_len)
        inds = np.clip(starts[:, None] + steps, 0, total - 1).astype(int)
        results["frame_inds"] = inds.flatten() + results["start_index"]
        results["clip_len"] = self.clip_len
        results["frame_interval"] = self.frame_interval
        results["num_clips"] = self.num_clips
        return results

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(clip_len={self.clip_len}, "
            f"frame_interval={self.frame_interval}, num_clips={self.num_clips}, "
            f"target_fps={self.target_fps}, test_mode={self.test_mode})"
        )

"""Frames observed before an action."""

import numpy as np
from mmcv.transforms import BaseTransform

from mmvidformer.registry import TRANSFORMS


def observed_frames(
    start: float, fps: float = 30.0, time_step: float = 0.25, num_steps: int = 14
) -> np.ndarray:
    """Numbers of the frames observed before an action, from 1, the oldest first.

    ``floor((start - m time_step) fps)`` for m = ``num_steps`` to 1, in double precision and in this
    order of operations, as RULSTM's official code: exact arithmetic gives another frame in 1.5% of
    cases. What lies before the video is replaced by the first frame that does not.

    Args:
        start: Start of the action in seconds.
        fps: Frames a second.
        time_step: Seconds between frames, and from the last one to the action.
        num_steps: Frames to observe.

    Returns:
        (num_steps,) integers. All are below 1 if nothing can be observed.
    """
    before = (time_step + time_step * np.arange(num_steps))[::-1]
    frames = np.floor((start - before) * fps).astype(int)
    if frames[-1] >= 1:
        frames[frames < 1] = frames[frames >= 1].min()
    return frames


@TRANSFORMS.register_module()
class ObserveBefore(BaseTransform):
    """Take the frames at fixed steps of time before an action (HORST, section "Sampling").

    The last frame is ``time_step`` before the action, the first ``num_steps`` times as long. For
    ``mmvidformer.AnticipationDataset``; comes before ``RawFrameDecode`` or ``LmdbDecode``, or
    between ``DecordInit`` and ``DecordDecode``, and in place of ``SampleFrames``.

    Required keys: ``action_start`` (seconds), ``avg_fps``, ``start_index``, and ``total_frames``
    for videos. Added: ``frame_inds``, ``clip_len``, ``num_clips``.

    Args:
        time_step: Seconds from a frame to the next.
        num_steps: Frames to take.

    Raises:
        ValueError: If an argument is not positive, or the video ends before its last frame to
            observe.
    """

    def __init__(self, time_step: float = 0.25, num_steps: int = 14) -> None:
        if time_step <= 0 or num_steps < 1:
            raise ValueError(
                f"time_step and num_steps must be positive, got {time_step} and {num_steps}"
            )
        self.time_step = time_step
        self.num_steps = num_steps

    def frames(self, start: float, fps: float) -> np.ndarray:
        """Numbers of the frames before ``start`` seconds, from 1; see ``observed_frames``."""
        return observed_frames(start, fps, self.time_step, self.num_steps)

    def transform(self, results: dict) -> dict:
        """Choose ``results['frame_inds']``."""
        # The dataset has dropped what starts too early, by frames at 30 a second; at fewer there
        # may still be no whole frame before the action.
        numbers = np.maximum(self.frames(results["action_start"], results["avg_fps"]), 1)
        total = results.get("total_frames")
        if total is not None and numbers[-1] > total:
            raise ValueError(
                f"{results.get('filename')} has {total} frames, and the action at "
                f"{results['action_start']:.2f} s needs frame {numbers[-1]}; is it the right video?"
            )
        results["frame_inds"] = numbers - 1 + results["start_index"]
        results["clip_len"] = self.num_steps
        results["num_clips"] = 1
        return results

    def __repr__(self) -> str:
        return f"{type(self).__name__}(time_step={self.time_step}, num_steps={self.num_steps})"

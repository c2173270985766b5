"""Parts of a video: before an action, from its start, or a segment."""

import math
from dataclasses import dataclass

import numpy as np
from mmcv.transforms import BaseTransform

from mmvidformer.datasets.transforms.sampling import FrameSampler
from mmvidformer.registry import TRANSFORMS


@TRANSFORMS.register_module()
@dataclass
class ObserveBefore(BaseTransform):
    """Take frames at regular times before an action (HORST, section "Sampling").

    The last frame is ``time_step`` before the action, the first one ``num_steps`` times as long.
    For ``mmvidformer.AnticipationDataset``; goes before ``RawFrameDecode`` or ``LmdbDecode``, or
    between ``VideoInit`` and ``VideoDecode``, in place of ``SampleFrames``.

    Required keys: ``action_start`` (seconds), ``avg_fps``, ``start_index``, and ``total_frames``
    for videos. Added keys: ``frame_inds``, ``clip_len``, ``num_clips``.

    Args:
        time_step: Seconds between frames.
        num_steps: Number of frames.

    Raises:
        ValueError: If a video ends before the last frame.
    """

    time_step: float = 0.25
    num_steps: int = 14

    def frames(self, start: float, fps: float) -> np.ndarray:
        """Compute the numbers of the observed frames, from 1, oldest first.

        ``floor((start - m time_step) fps)`` for m = ``num_steps`` to 1, in double precision and in
        this order of operations, as in RULSTM's official code; exact arithmetic gives another frame
        in 1.5% of cases. Frames before the video are replaced by the first one in it. All numbers
        are below 1 if nothing can be observed. ``start`` of the action is in seconds.
        """
        before = (self.time_step + self.time_step * np.arange(self.num_steps))[::-1]
        frames = np.floor((start - before) * fps).astype(int)
        if frames[-1] >= 1:
            frames[frames < 1] = frames[frames >= 1].min()
        return frames

    def transform(self, results: dict) -> dict:
        """Set ``results['frame_inds']``."""
        # The dataset skips what starts too early, by frames at 30 per second. At lower rates there
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


@TRANSFORMS.register_module()
@dataclass
class ObserveFirst(FrameSampler):
    """Take the frames of the first part of a video, however many there are (early recognition).

    Clips differ in length. ``ActionDataPreprocessor`` pads a batch with black frames at the end,
    before normalization; no collate function is needed. The key ``length`` gives a
    ``RecurrentRecognizer`` the number of frames of each clip:
    ``dict(type="PackActionInputs", meta_keys=("length",))``. ``ClipPadding`` sets it by itself.

    Keys are those of ``FrameSampler``, ``avg_fps`` if ``target_fps`` is set, and ``length``, which
    equals ``clip_len``.

    Args:
        ratio: Observed share of the video, above 0 and at most 1, rounded down to whole frames, but
            at least one.
        frame_interval: Interval between frames at ``target_fps``; 1 takes all.
        target_fps: Frame rate to which the video is resampled; at a higher rate than its own,
            frames are repeated. None for that of the file.

    Raises:
        ValueError: If ``ratio`` is out of range.
    """

    ratio: float = 1.0
    frame_interval: int = 1
    target_fps: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1:
            raise ValueError(f"ratio must be above 0 and at most 1, got {self.ratio}")

    def sample(self, total: int, results: dict) -> np.ndarray:
        """Choose frames (1, length), and set ``results['length']``."""
        # 0.29 of 100 frames is 28.999999999999996 in floating point.
        observed = max(1, int(self.ratio * total + 1e-6))
        rate = results["avg_fps"] / self.target_fps if self.target_fps else 1
        step = self.frame_interval * rate
        frames = (np.arange(math.ceil(observed / step - 1e-6)) * step + 1e-6).astype(int)
        results["length"] = len(frames)
        return frames[None]


@TRANSFORMS.register_module()
class LimitToSegment(BaseTransform):
    """Limit the sampler that follows to a segment of the video.

    Goes between a decoder's ``...Init`` and ``SampleFrames``. Required keys: ``segment`` (first and
    last frame, from 0, both included), ``total_frames``. Changed keys: ``start_index``,
    ``total_frames``. A segment that ends after the video is cut there. If there are
    ``segment_seconds`` (start and end), they and ``avg_fps`` take the place of ``segment``, because
    the official frames of EPIC-Kitchens have other rates than some of its videos.

    Raises:
        ValueError: If the segment starts after the end of the video.
    """

    def transform(self, results: dict) -> dict:
        """Set the range of frames to sample from."""
        first, last = results["segment"]
        total = results["total_frames"]
        if results.get("segment_seconds"):
            times = results["segment_seconds"]
            first, last = (max(int(t * results["avg_fps"] + 1e-6) - 1, 0) for t in times)
        if first >= total:
            raise ValueError(
                f"segment {first} to {last} of {results.get('filename')} starts after the "
                f"video's {total} frames; is it the right video?"
            )
        results["start_index"] = first
        results["total_frames"] = min(last, total - 1) - first + 1
        return results

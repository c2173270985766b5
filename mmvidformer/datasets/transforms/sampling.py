"""Samplers of frames that MMAction2 lacks."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from mmcv.transforms import BaseTransform

from mmvidformer.registry import TRANSFORMS


class FrameSampler(BaseTransform):
    """A transform that chooses the frames of a video, in place of ``SampleFrames``.

    Required keys: ``total_frames``, ``start_index``. Added keys: ``frame_inds``, ``clip_len``,
    ``num_clips``, ``frame_interval`` (None if the frames have no fixed interval).

    Raises:
        ValueError: If a video has no frames.
    """

    @abstractmethod
    def sample(self, total: int, results: dict) -> np.ndarray:
        """Choose frames (num_clips, T) of ``total``, from 0."""

    def transform(self, results: dict) -> dict:
        """Set ``results['frame_inds']``."""
        if results["total_frames"] < 1:
            raise ValueError(f"{results.get('filename')} has no frames")
        clips = self.sample(results["total_frames"], results)
        results["frame_inds"] = clips.flatten() + results["start_index"]
        results["num_clips"], results["clip_len"] = clips.shape
        results["frame_interval"] = getattr(self, "frame_interval", None)
        return results


@TRANSFORMS.register_module()
@dataclass
class SpanFrames(FrameSampler):
    """Spread the frames of a clip evenly over a time span, including its last frame.

    This is PySlowFast's sampling, which the published TimeSformer weights were trained with. A clip
    of T frames at interval r spans ``r T`` frames at ``target_fps``, and its k-th frame is
    ``floor(start + k (span - 1) / (T - 1))``. For 8 frames at interval 32 the step is 36.4 frames;
    MMAction2's ``SampleFrames`` takes every 32nd frame. Frames beyond the end are replaced by the
    last one.

    In training, starts are uniform over all that fit. In testing, the k-th of K clips starts at
    ``k / K`` of them, so that a single clip starts with the video. (The TimeSformer paper takes it
    from the middle, as ``SampleFrames`` does.)

    If ``num_clips`` is None, consecutive clips cover the whole video, as in TimeSformer's test on
    HowTo100M (section 4.6). A remainder gets a clip if it is at least half of one, so that 410
    seconds have 48 clips of 8.5 seconds. ``model.test_cfg.max_testing_views`` limits how many of
    them go through the model at once.

    Keys are those of ``FrameSampler``; ``avg_fps`` is required too unless ``target_fps`` is None.

    Args:
        clip_len: Number of frames T per clip.
        frame_interval: Interval r at ``target_fps``.
        num_clips: Number of clips K per video. None for as many as cover it.
        target_fps: Frame rate that the interval refers to. None for that of the file.
        test_mode: Whether clips are at fixed positions.
    """

    clip_len: int
    frame_interval: int
    num_clips: int | None = 1
    target_fps: float | None = 30
    test_mode: bool = False

    def sample(self, total: int, results: dict) -> np.ndarray:
        """Choose frames (num_clips, T)."""
        span = self.clip_len * self.frame_interval
        if self.target_fps is not None:
            span *= results["avg_fps"] / self.target_fps
        free = max(total - span, 0)
        if self.num_clips is None:
            starts = span * np.arange(max(1, int(total / span + 0.5)))
        elif self.test_mode:
            starts = free * np.arange(self.num_clips) / self.num_clips
        else:
            starts = np.random.uniform(0, free, self.num_clips)
        steps = np.linspace(0, span - 1, self.clip_len)
        return np.clip(starts[:, None] + steps, 0, total - 1).astype(int)


@TRANSFORMS.register_module()
@dataclass
class SegmentFrames(FrameSampler):
    """Take a frame from each of T equal segments of the whole video.

    Segment i consists of frames ``round(i s)`` to ``round((i + 1) s)``, both included, with
    ``s = (frames - 1) / T``. In training a frame is drawn from each, as in MMAction2's
    ``UniformSample``. In testing the first clip takes their middle frames (rounded down), the
    second their first and the third their last frames, as the official code of TimeSformer (one
    clip) and of feature fixation does on Something-Something V2.

    Keys are those of ``FrameSampler``.

    Args:
        clip_len: Number of frames T per clip.
        num_clips: Number of clips per video, at most 3 in testing.
        test_mode: Whether frames are at fixed positions.

    Raises:
        ValueError: If ``num_clips`` is more than 3 in testing.
    """

    clip_len: int
    num_clips: int = 1
    test_mode: bool = False

    def __post_init__(self) -> None:
        if self.test_mode and self.num_clips > 3:
            raise ValueError(f"num_clips must be at most 3 in testing, got {self.num_clips}")

    def sample(self, total: int, results: dict) -> np.ndarray:
        """Choose frames (num_clips, T)."""
        borders = np.arange(self.clip_len + 1) * ((total - 1) / self.clip_len)
        borders = np.round(borders).astype(int)
        start, end = borders[:-1], borders[1:]
        if self.test_mode:
            return np.stack([(start + end) // 2, start, end][: self.num_clips])
        return np.stack([np.random.randint(start, end + 1) for _ in range(self.num_clips)])

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from mmvidformer.catalog import TRANSFORMS
from mmvidformer.data.transforms.base import Transform
from mmvidformer.data.transforms.rates import number_by_time, rescale
from mmvidformer.errors import UserError
from mmvidformer.video.errors import path_of
from mmvidformer.video.facts import require_frame, require_frames
from mmvidformer.video.times import FrameTimes


class FrameSampler(Transform):
    """A transform that chooses the frames of a video, in place of ``SampleFrames``.

    Required keys: ``start_index``, ``total_frames``. Added keys: ``frame_inds``, ``clip_len``,
    ``num_clips``, ``frame_interval`` (None if the frames have no fixed interval).

    Raises:
        BadVideo: If a video has no frames.
    """

    def needs_times(self, results: dict) -> bool:
        """Whether frames of this sample are found by their seconds."""
        return False

    @abstractmethod
    def sample(self, total: int, results: dict) -> np.ndarray:
        """Choose frames (num_clips, T) of ``total``, from 0."""

    def transform(self, results: dict) -> dict:
        """Set ``results['frame_inds']``."""
        if self.needs_times(results):
            number_by_time(results)
        total = results.get("total_frames")
        require_frames(path_of(results), total)
        clips = self.sample(total, results)
        results["frame_inds"] = clips.flatten() + results["start_index"]
        results["num_clips"], results["clip_len"] = clips.shape
        results["frame_interval"] = getattr(self, "frame_interval", None)
        return results


@TRANSFORMS.add
@dataclass
class SpanFrames(FrameSampler):
    """Spread the frames of a clip evenly over a time span.

    A clip of T frames at interval r spans ``r T`` frames at ``target_fps``, at least one. Frames
    beyond the end are replaced by the last one.

    Args:
        clip_len: Number of frames T per clip.
        frame_interval: Interval r at ``target_fps``.
        num_clips: Number of clips K per video. None for consecutive clips that cover it, as in
            TimeSformer's test on HowTo100M; a remainder gets one if it is at least half of one.
        target_fps: Frame rate that the interval refers to, and that of the frames where ``avg_fps``
            is missing (folders). None for that of the file.
        test_mode: Whether the k-th clip starts at ``k / K`` of all starts that fit. In training,
            starts are uniform over these.
        include_last: Whether frame k is ``floor(start + k (span - 1) / (T - 1))``, PySlowFast's
            sampling, which the published TimeSformer weights were trained with; or, with False,
            ``floor(start + k span / T)``, which keeps the interval exactly.
    """

    clip_len: int
    frame_interval: int
    num_clips: int | None = 1
    target_fps: float | None = 30
    test_mode: bool = False
    include_last: bool = True

    def sample(self, total: int, results: dict) -> np.ndarray:
        """Choose frames (num_clips, T)."""
        span = self.clip_len * self.frame_interval
        if self.target_fps is not None:
            times = FrameTimes(results.get("avg_fps") or self.target_fps)
            span = max(times.rescale(span, self.target_fps), 1.0)
        free = max(total - span, 0)
        if self.num_clips is None:
            starts = span * np.arange(max(1, int(total / span + 0.5)))
        elif self.test_mode:
            starts = free * np.arange(self.num_clips) / self.num_clips
        else:
            starts = np.random.uniform(0, free, self.num_clips)
        end = span - 1 if self.include_last else span * (1 - 1 / self.clip_len)
        steps = np.linspace(0, end, self.clip_len)
        return np.clip(starts[:, None] + steps, 0, total - 1).astype(int)


@TRANSFORMS.add
@dataclass
class SegmentFrames(FrameSampler):
    """Take a frame from each of T equal segments of the whole video.

    Segment i consists of frames ``round(i s)`` to ``round((i + 1) s)``, both included, with
    ``s = (frames - 1) / T``. In training a frame is drawn from each, as by ``UniformSample``. In
    testing the first clip has their middle frames (rounded down), the second their first and the
    third their last ones, as in the official codes of TimeSformer and feature fixation.

    Args:
        clip_len: Number of frames T per clip.
        num_clips: Number of clips per video, at most 3 in testing.
        test_mode: Whether frames are at fixed positions.

    Raises:
        UserError: If ``num_clips`` is more than 3 in testing.
    """

    clip_len: int
    num_clips: int = 1
    test_mode: bool = False

    def __post_init__(self) -> None:
        if self.test_mode and self.num_clips > 3:
            raise UserError(f"num_clips must be at most 3 in testing, got {self.num_clips}")

    def sample(self, total: int, results: dict) -> np.ndarray:
        """Choose frames (num_clips, T)."""
        borders = np.linspace(0, total - 1, self.clip_len + 1).round().astype(int)
        start, end = borders[:-1], borders[1:]
        if self.test_mode:
            return np.stack([(start + end) // 2, start, end][: self.num_clips])
        return np.stack([np.random.randint(start, end + 1) for _ in range(self.num_clips)])


@TRANSFORMS.add
@dataclass
class ObserveBefore(FrameSampler):
    """Take frames at regular times before an action (HORST, section "Sampling").

    The last frame is ``time_step`` before the action, the first one ``num_steps`` times as long.
    Also requires ``action_start`` (seconds) and ``avg_fps``; ``total_frames`` only for videos.

    Args:
        time_step: Seconds between frames.
        num_steps: Number of frames.

    Raises:
        BadVideo: If a video ends before the last frame, or as ``number_by_time``.
    """

    time_step: float = 0.25
    num_steps: int = 14

    def needs_times(self, results: dict) -> bool:
        """Return True: an action starts at a second."""
        return True

    def frames(self, start: float, fps: float) -> np.ndarray:
        """Compute the numbers of the observed frames, from 1, oldest first.

        ``floor((start - m time_step) fps)`` for m = ``num_steps`` to 1, in the precision of RULSTM.
        Frames before the video are replaced by the first one in it; all are below 1 if none is.
        """
        before = (self.time_step + self.time_step * np.arange(self.num_steps))[::-1]
        frames = np.floor(FrameTimes(fps).numbers(start - before)).astype(int)
        if frames[-1] >= 1:
            frames[frames < 1] = frames[frames >= 1].min()
        return frames

    def sample(self, total: int | None, results: dict) -> np.ndarray:
        """Choose frames (1, num_steps)."""
        # At rates below 30 there may be no whole frame before an action that the dataset kept.
        numbers = np.maximum(self.frames(results["action_start"], results["avg_fps"]), 1)
        action = f"the action at {results['action_start']:.2f} s"
        require_frame(path_of(results), numbers[-1] - 1, total, action)
        return numbers[None] - 1


@TRANSFORMS.add
@dataclass
class ObserveFirst(FrameSampler):
    """Take the frames of the first part of a video, however many there are (early recognition).

    Clips differ in length, which ``VideoDataPreprocessor`` and this package's recognizers take.

    Args:
        ratio: Observed share of the video, above 0 and at most 1, rounded down to whole frames, but
            at least one.
        frame_interval: Interval between frames at ``target_fps``; 1 takes all.
        target_fps: Frame rate to which the video is resampled; at a higher rate than its own,
            frames are repeated. None for that of the file.

    Raises:
        UserError: If ``ratio`` is out of range.
        BadVideo: If there is a ``target_fps``, and the frame rate is unknown.
    """

    ratio: float = 1.0
    frame_interval: int = 1
    target_fps: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1:
            raise UserError(f"ratio must be above 0 and at most 1, got {self.ratio}")

    def sample(self, total: int, results: dict) -> np.ndarray:
        """Choose frames (1, T)."""
        # 0.29 of 100 frames is 28.999999999999996 in floating point.
        observed = max(1, int(self.ratio * total + 1e-6))
        step = rescale(results, self.frame_interval, self.target_fps)
        frames = (np.arange(math.ceil(observed / step - 1e-6)) * step + 1e-6).astype(int)
        return frames[None]


class UnevenFrames(UserError):
    """Frames of a clip have no fixed interval."""


@TRANSFORMS.add
@dataclass
class AlignClips(Transform):
    """Move clips towards the first one, so that the frames that they share are computed once.

    After it they begin a multiple of ``interval x tubelet`` frames after the first clip, by which
    the tubelets of one coincide with those of another (``fast.shared_frames``). Each moves by
    fewer frames than that. Goes after a sampler. Changed keys: ``frame_inds``.

    Args:
        tubelet: Number of frames of a tubelet.

    Raises:
        UnevenFrames: If the frames of a clip have no fixed interval.
    """

    tubelet: int = 1

    def transform(self, results: dict) -> dict:
        """Move the frames."""
        clips = results["frame_inds"].reshape(results["num_clips"], -1)
        starts, steps = clips[:, 0] - clips[0, 0], np.diff(clips[0])
        if not (starts.any() and steps.any()):  # or a clip is one frame, repeated
            return results
        if len({*steps.tolist()}) > 1:
            different = f"got steps of {sorted({*steps.tolist()})} from {path_of(results)}"
            raise UnevenFrames(f"--align needs frames at a fixed interval, {different}")
        results["frame_inds"] = (clips - (starts % (self.tubelet * steps[0]))[:, None]).reshape(-1)
        return results


@TRANSFORMS.add
class LimitToSegment(Transform):
    """Limit the sampler that follows to a segment of the video, cut at its end.

    Goes between a decoder's ``...Init`` and a sampler. Required keys: ``segment`` (first and last
    frame, from 0, both included), ``total_frames``; or ``segment_seconds`` (start and end) with
    ``avg_fps``. Changed keys: ``start_index``, ``total_frames``.

    Raises:
        BadVideo: If the segment starts after the end of the video, or is in seconds and
            ``number_by_time`` fails.
    """

    def transform(self, results: dict) -> dict:
        """Set the range of frames to sample from."""
        if results.get("segment_seconds"):
            times = number_by_time(results)
            first, last = np.maximum(times.at(np.array(results["segment_seconds"])) - 1, 0).tolist()
        else:
            first, last = results["segment"]
        total = results["total_frames"]
        require_frame(path_of(results), first, total, "its segment")
        results["start_index"] = first
        results["total_frames"] = min(last, total - 1) - first + 1
        return results


@TRANSFORMS.add
@dataclass
class TrimToVideo(Transform):
    """End clips with their video, where the sampler before it loops or repeats the last frame.

    Follows a sampler of increasing frames, such as ``SampleFrames`` or ``SpanFrames``. All clips of
    a video get the length of the shortest. Batches need ``VideoDataPreprocessor`` and
    ``MultiViewRecognizer``. Changed keys: ``frame_inds``, ``clip_len``.

    Args:
        multiple: The tubelet's number of frames, of which a clip keeps a multiple, at least one.
    """

    multiple: int = 1

    def transform(self, results: dict) -> dict:
        """Cut ``results['frame_inds']``."""
        clips = results["frame_inds"].reshape(results["num_clips"], -1)
        step, last = np.diff(clips), clips.max(axis=1, keepdims=True)
        ends = ((step < 0) | ((step == 0) & (clips[:, 1:] == last))).any(axis=0)
        length = int(ends.argmax()) + 1 if ends.any() else clips.shape[1]
        clips = clips[:, : max(length - length % self.multiple, self.multiple)]
        return {**results, "frame_inds": clips.flatten(), "clip_len": clips.shape[1]}

"""Parts of long videos and of streams: windows, steps of time and segments, and their answers."""

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import numpy as np

from mmvidformer.apis.pipeline import VideoPipeline
from mmvidformer.data.transforms.rates import number_by_time
from mmvidformer.errors import UserError
from mmvidformer.layers.samples import DataSample, Instances, Sample
from mmvidformer.video.facts import require_rate
from mmvidformer.video.times import FrameTimes

logger = logging.getLogger("mmvidformer")

WINDOW = 2.0  # seconds
# Clips of a part of a long video, and those at its ends that are context.
PART, CONTEXT = 8, 1
SEGMENTS_PART, SEGMENTS_CONTEXT = 64, 16

Frames = Iterable[np.ndarray]  # of a stream: RGB (H, W, 3), uint8
Predict = Callable[[list[dict]], list[Sample]]  # of a sample of one video after the other
# Scores, and where: the seconds; or a segment.
Answer = tuple[Sample | Instances, dict]
Item = TypeVar("Item")


def times_of(opened: dict) -> FrameTimes:
    """Number the frames of an opened video by time, and return their times.

    Args:
        opened: A result of ``VideoPipeline.open``; ``video_reader``, ``total_frames`` and
            ``avg_fps`` change if the rate of the file varies (``Video.at_constant_rate``).

    Raises:
        BadVideo: If the rate is unknown, or varies and the decoder cannot number frames by time.
    """
    require_rate(opened.get("filename", "the array"), opened.get("avg_fps"), ", set fps")
    return number_by_time(opened)


def list_windows(frames: int, size: int, step: int, to_end: bool = True) -> list[tuple[int, int]]:
    """First and last frame of each window of ``size`` frames of a video, ``step`` frames apart.

    A video that is shorter is one window. With ``to_end`` the last window ends with the video.
    """
    firsts = list(range(0, max(frames - size, 0) + 1, step))
    if to_end and firsts[-1] + size < frames:
        firsts.append(frames - size)
    return [(first, min(first + size, frames) - 1) for first in firsts]


def in_frames(
    fps: float, window: float | None, stride: float | None, find_period: Callable[[int], int]
) -> tuple[int, int]:
    """Size and step in frames of windows of ``window`` seconds (default: 2), ``stride`` s apart.

    The default stride is half a window, or what is nearest to it among the steps with which windows
    share frames: multiples of ``find_period(size)`` frames (``VideoPipeline.period``).

    Raises:
        UserError: If a number is not positive.
    """
    window = WINDOW if window is None else window
    seconds = window / 2 if stride is None else stride
    if min(fps, window, seconds) <= 0:
        values = f"{window:g} s, {seconds:g} s and {fps:g}"
        raise UserError(f"window, stride and fps must be positive, got {values}")
    times = FrameTimes(fps)
    size, step = (max(1, round(times.count(length))) for length in (window, seconds))
    period = find_period(size)
    if stride is None:
        return size, max(1, round(step / period)) * period
    check_step(size, step, period, times.seconds(period))
    return size, step


@cache  # says so once
def check_step(size: int, step: int, period: int, seconds: float) -> None:
    """Say so if windows overlap, but their frames are computed anew; see ``in_frames``.

    Args:
        size: Frames of a window.
        step: Frames from one window to the next.
        period: Frames after which those of the model coincide.
        seconds: The same in seconds.
    """
    if step < size and step % period:
        logger.warning(
            "windows %d frames apart share no frames with the next ones, since the model's frames "
            "coincide every %d (%.3g s) only; with a multiple of it, they are computed once",
            *(step, period, seconds),
        )


def last_frames(
    frames: Frames, size: int, step: int = 1, places: Iterable[int] | None = None
) -> Iterator[tuple[int, deque[np.ndarray | None]]]:
    """Yield the number of frames of a stream so far, and the last ``size``, every ``step`` frames.

    Of a window only the frames at ``places`` are needed (default: all). Those that no window needs
    are None, which saves their memory.
    """
    needed = {place % step for place in (range(step) if places is None else places)}
    kept: deque[np.ndarray | None] = deque(maxlen=size)
    for number, frame in enumerate(frames):
        kept.append(frame if number % step in needed else None)
        count = number + 1
        if count >= size and (count - size) % step == 0:
            yield count, kept


def stream_windows(
    pipeline: VideoPipeline, frames: Frames, fps: float, size: int, step: int, start: int = 0
) -> Iterator[tuple[dict, tuple[float, float]]]:
    """Read the windows of a stream, each when its last frame has come.

    ``start`` is the number of the first frame.

    Yields:
        The sample, and the seconds of the window.
    """
    sampled, times = pipeline.sample(size, fps), FrameTimes(fps)
    places = sampled["frame_inds"].flatten().tolist()
    for count, kept in last_frames(frames, size, step, places):
        first = start + count - size
        yield pipeline.read_frames(kept, sampled, first), times.span(first, first + size - 1)


def read_ahead(items: Iterable[Item], count: int = 2) -> Iterator[Item]:
    """Compute items in a thread, ``count`` of them ahead; errors are raised in their places."""
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, iterator, end) for _ in range(count))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, iterator, end))
            yield item  # type: ignore[misc]


def list_steps(pipeline: VideoPipeline, predict: Predict, video: dict) -> Iterator[Answer]:
    """Classify the steps of an opened video in parts: memory does not grow with its length.

    A part has 8 clips, of which one at each end is context. It gives the steps whose middle is not
    in its context. Those of a video of at most 8 clips are those of ``mmvidformer test``.
    """
    times, total = FrameTimes(video["avg_fps"]), video["total_frames"]
    for sample, first, low, high in _predict_parts(pipeline, predict, video, PART, CONTEXT):
        for scores, start, stop in _steps(sample, first):
            if low <= (start + stop) / 2 < high:
                yield scores, dict(seconds=(times.seconds(start), times.seconds(min(stop, total))))


def list_segments(
    pipeline: VideoPipeline, predict: Predict, video: dict, min_score: float
) -> Iterator[Answer]:
    """Find the segments of an opened video in parts: memory does not grow with its length.

    A part has 64 clips, of which 16 at each end are context. It gives the segments whose middle is
    not in its context, in their order in time.
    """
    times, clips = FrameTimes(video["avg_fps"]), (SEGMENTS_PART, SEGMENTS_CONTEXT)
    for sample, first, low, high in _predict_parts(pipeline, predict, video, *clips):
        segments = sample.pred_instances
        segments.segments = segments.segments + times.seconds(first)
        middles = times.numbers(segments.segments.mean(dim=1))
        segments = segments.select(
            (segments.scores >= min_score) & (middles >= low) & (middles < high)
        )
        ends = segments.segments.tolist()
        for number in sorted(range(len(ends)), key=ends.__getitem__):
            yield segments.select(slice(number, number + 1)), {}


def _predict_parts(
    pipeline: VideoPipeline, predict: Predict, video: dict, clips: int, context: int
) -> Iterator[tuple[Sample, int, float, float]]:
    """Predict parts of ``clips`` clips of an opened video, with ``context`` clips at each end.

    Yields:
        The output, the first frame of the part, and first and last frame without the context.
    """
    fps, total = video["avg_fps"], video["total_frames"]
    size, edge = (round(count * pipeline.span(fps)) for count in (clips, context))
    for first in range(0, max(total - 2 * edge, 1), size - 2 * edge):
        end = min(first + size, total)
        low = first + edge if first else 0
        high = end - edge if end < total else math.inf
        sample = pipeline.read(video, (first, end - 1))
        yield predict([sample])[0], first, low, high


def stream_steps(
    pipeline: VideoPipeline, predict: Predict, frames: Frames, fps: float, delay: float
) -> Iterator[Answer]:
    """Classify each step of a stream once, ``delay`` s after its end or when the stream ends."""
    size = max(round(pipeline.span(fps)), 1)
    sampled, times = pipeline.sample(size, fps), FrameTimes(fps)
    done, step, late = 0.0, 0.0, 0.0  # end of the last step, length and delay of all, in frames
    waiting: list[Answer] = []
    for count, kept in last_frames(frames, size):
        if step and count - late + 1e-6 < done + step:
            continue
        (sample,) = predict([pipeline.read_frames(kept, sampled, count - size)])
        step = sample.step
        # Whole steps, or those of a clip would lie between those of the last one.
        late = math.ceil(times.count(delay) / step - 1e-6) * step
        if late + step > size + 0.5:
            most = f"{times.seconds(size - step):.3g} s (a clip less a step)"
            raise UserError(f"delay must be at most {most}, got {delay:g} s")
        waiting = []
        for scores, start, stop in _steps(sample, count - size):
            if start < done - step / 2:
                continue
            answer = scores, dict(seconds=(times.seconds(start), times.seconds(stop)))
            if stop > count - late + 1e-6:
                waiting.append(answer)
                continue
            done = stop
            yield answer
    yield from waiting


def _steps(sample: Sample, first: int) -> Iterator[tuple[Sample, float, float]]:
    """Yield scores, start and end of the steps of a part that begins at frame ``first``."""
    for number, scores in enumerate(sample.pred_score):
        start = first + number * sample.step
        yield DataSample(pred_score=scores), start, start + sample.step

"""Windows of long videos and of streams: where they are, and answers for them."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import numpy as np
import torch

from mmvidformer.apis.pipeline import VideoPipeline

logger = logging.getLogger("mmvidformer")

WINDOW = 2.0  # seconds
Seconds = tuple[float, float]
Item = TypeVar("Item")


def list_windows(frames: int, size: int, step: int, to_end: bool = True) -> list[tuple[int, int]]:
    """First and last frame of each window of ``size`` frames of a video, ``step`` frames apart.

    A video that is shorter is one window. With ``to_end`` the last window ends with the video.
    """
    firsts = list(range(0, max(frames - size, 0) + 1, step))
    if to_end and firsts[-1] + size < frames:
        firsts.append(frames - size)
    return [(first, min(first + size, frames) - 1) for first in firsts]


def in_frames(
    fps: float,
    window: float | None,
    stride: float | None,
    find_period: Callable[[int], int] = lambda size: 1,
) -> tuple[int, int]:
    """Size and step in frames of windows of ``window`` seconds (default: 2), ``stride`` s apart.

    The default stride is half a window, or what is nearest to it among the steps with which windows
    share frames: multiples of ``find_period(size)`` frames (``VideoPipeline.period``).

    Raises:
        ValueError: If a number is not positive.
    """
    window = WINDOW if window is None else window
    seconds = window / 2 if stride is None else stride
    if min(fps, window, seconds) <= 0:
        raise ValueError(
            f"window, stride and fps must be positive, got {window:g} s, {seconds:g} s and {fps:g}"
        )
    size, step = max(1, round(window * fps)), max(1, round(seconds * fps))
    period = find_period(size)
    if stride is None:
        return size, max(1, round(step / period)) * period
    check_step(size, step, period, fps)
    return size, step


@cache  # says so once
def check_step(size: int, step: int, period: int, fps: float) -> None:
    """Say so if windows overlap, but their frames are computed anew; see ``in_frames``."""
    if step < size and step % period:
        logger.warning(
            "windows %d frames apart share no frames with the next ones, since the model's frames "
            "coincide every %d (%.3g s) only; with a multiple of it, they are computed once",
            *(step, period, period / fps),
        )


def last_frames(frames: Iterable[np.ndarray], size: int) -> Iterator[tuple[int, deque[np.ndarray]]]:
    """Yield the number of frames (H, W, 3), uint8, of a stream so far, and the last ``size``."""
    kept: deque[np.ndarray] = deque(maxlen=size)
    for count, frame in enumerate(frames, start=1):
        kept.append(frame)
        if count >= size:
            yield count, kept


def stream_windows(
    pipeline: VideoPipeline, frames: Iterable[np.ndarray], fps: float, size: int, step: int
) -> Iterator[tuple[dict, Seconds]]:
    """Yield samples of windows of a stream, and their seconds."""
    for count, kept in last_frames(frames, size):
        if (count - size) % step == 0:
            yield pipeline.read_frames(kept, fps), ((count - size) / fps, count / fps)


def read_ahead(items: Iterable[Item], count: int = 2) -> Iterator[Item]:
    """Compute items in a thread, ``count`` of them ahead; errors are raised in their places."""
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, iterator, end) for _ in range(count))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, iterator, end))
            yield item  # type: ignore[misc]


def answer_windows(
    windows: Iterable[tuple[dict, Seconds]],
    predict: Callable[[dict], Any],
    skip_static: float | None = None,
) -> Iterator[tuple[Any, dict]]:
    """Predict windows (samples and seconds), but those that hardly differ from the last predicted.

    With ``skip_static`` these are windows each of whose frames differs from that of the last one by
    less than this, in the mean of pixels of 0 to 255. The last answer stands for them, and is
    ``static``.

    Yields:
        The answer, and where: its ``seconds``, and whether it is ``static``.
    """
    last, found = torch.empty(0), None
    for sample, seconds in windows:
        inputs, static = sample["inputs"], False  # (views, C, T, H, W) or (T, C, H, W)
        if skip_static is not None and inputs.shape == last.shape:
            change = (inputs.int() - last.int()).abs().float()
            of_frame = change.mean(dim=(-4, -2, -1) if inputs.dim() == 5 else (-3, -2, -1))
            static = of_frame.max().item() < skip_static
        if not static:
            last, found = inputs, predict(sample)
        yield found, dict(seconds=seconds, static=static)

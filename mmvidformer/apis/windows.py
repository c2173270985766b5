"""Windows of long videos and of streams: where they are, and answers for them."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
import torch

from mmvidformer.apis.pipeline import VideoPipeline

logger = logging.getLogger("mmvidformer")

WINDOW = 2.0  # seconds
Seconds = tuple[float, float]


def list_windows(frames: int, size: int, step: int, to_end: bool = True) -> list[tuple[int, int]]:
    """First and last frame of each window of a video; one that is shorter than a window is one.

    Args:
        frames: Number of frames of the video.
        size: Number of frames of a window.
        step: Frames from one window to the next.
        to_end: Whether the last window ends with the video.
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
    """Size and step of windows in frames.

    Args:
        fps: Frames per second.
        window: Length in seconds; default: 2.
        stride: Seconds from one window to the next. Default: half a window, or what is nearest to
            it among the steps with which windows share frames.
        find_period: Function from the size to the number of frames of which a step must be a
            multiple so that windows share frames; see ``check_step``.

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


def stream_windows(
    pipeline: VideoPipeline, frames: Iterable[np.ndarray], fps: float, size: int, step: int
) -> Iterator[tuple[dict, Seconds]]:
    """Read windows of a stream, whose frames (H, W, 3), uint8, are kept as long as they are needed.

    Yields:
        A sample of the pipeline, and its seconds.
    """
    kept: deque[np.ndarray] = deque(maxlen=size)
    for count, frame in enumerate(frames, start=1):
        kept.append(frame)
        if count >= size and (count - size) % step == 0:
            sample = pipeline.read(pipeline.open(np.stack(kept), fps))
            yield sample, ((count - size) / fps, count / fps)


def answer_windows(
    windows: Iterable[tuple[dict, Seconds]],
    predict: Callable[[dict], Any],
    skip_static: float | None = None,
) -> Iterator[tuple[Any, Seconds, bool]]:
    """Predict windows, except those that hardly differ from the last one that was predicted.

    Args:
        windows: Samples of a pipeline, and their seconds.
        predict: Function of a sample.
        skip_static: A window is not predicted if each of its frames differs from that of the last
            window by less than this, in the mean of pixels of 0 to 255. None: all are.

    Yields:
        What ``predict`` returned for the window or the last one, its seconds, and whether it is the
        answer for the last one.
    """
    last: torch.Tensor | None = None
    found = None
    for sample, seconds in windows:
        inputs, static = sample["inputs"], False
        if last is not None and skip_static is not None:
            static = change_of(inputs, last) < skip_static
        if not static:
            last, found = inputs, predict(sample)
        yield found, seconds, static


def change_of(inputs: torch.Tensor, last: torch.Tensor) -> float:
    """Largest mean difference of two frames at the same place of clips; infinite for other sizes.

    Clips are (views, C, T, H, W) or (T, C, H, W), uint8.
    """
    if inputs.shape != last.shape:
        return float("inf")
    pixels = (inputs.int() - last.int()).abs().float()
    return pixels.mean(dim=(-4, -2, -1) if inputs.dim() == 5 else (-3, -2, -1)).max().item()

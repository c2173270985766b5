"""What a reader of a video needs of it; a video that lacks it is a ``BadVideo``."""

import os
from collections.abc import Iterable, Sequence

from mmvidformer.video.errors import BadVideo


def require_file(path: str) -> None:
    """Check that what is at a path is a file with content; to open a pipe would take forever."""
    if os.path.isdir(path):
        raise BadVideo(path, "it is a folder")
    if os.path.exists(path) and not os.path.isfile(path):
        raise BadVideo(path, "it is a device or pipe")
    if os.path.isfile(path) and not os.path.getsize(path):
        raise BadVideo(path, "the file is empty")


def require_frames(name: str, count: int | None) -> None:
    """Check that there are frames; None: their number is not known."""
    if count == 0:
        raise BadVideo(name, "there is no frame in it")


def require_frame(name: str, number: int, count: int | None, reader: str) -> None:
    """Check that a video has a frame, counted from 0.

    Args:
        name: What messages call the video.
        number: Number of the frame.
        count: Number of frames of the video. None: it is not known.
        reader: What needs the frame, such as ``'its segment'``.
    """
    if count is not None and number >= count:
        need = f"{reader} needs frame {number + 1}"
        raise BadVideo(name, f"has {count} frames, and {need}; is it the right video?")


def require_second(name: str, second: float, end: float, reader: str) -> None:
    """Check that a video lasts until a second, or ends half a second before it."""
    if second > end + 0.5:
        need = f"{reader} is at {second:g} s"
        raise BadVideo(name, f"lasts {end:.2f} s, and {need}; is it the right video?")


def require_rate(name: str, rate: float | None, remedy: str = "") -> float:
    """Return the frames per second of a video; 0 and None are unknown ones."""
    if not rate:
        raise BadVideo(name, f"its frame rate is unknown{remedy}")
    return rate


def require_one_size(name: str, sizes: Iterable[tuple[int, int]]) -> None:
    """Check that all frames have the same height and width."""
    if len(different := {*sizes}) > 1:
        raise BadVideo(name, f"its frames must have one size, got {sorted(different)}")


def require_size(name: str, size: Sequence[int], least: int) -> None:
    """Check that frames have at least so many pixels a side."""
    if min(size) < least:
        raise BadVideo(name, f"its frames must have at least {least} pixels a side, got {size}")

"""Which videos of others are read: limits of the page and of the server."""

import math
import os

from mmvidformer.engine.offer_options import Limits
from mmvidformer.errors import UserError
from mmvidformer.video.video import Video

MAX_PIXELS = 4096 * 2304  # of a frame: decoded frames of a small file can be huge
# Frames per second of the longest video, and the pixels of a frame up to which they are allowed.
MAX_FPS, FULL_HD = 60, 1920 * 1080
KEPT = 600  # seconds for which files of the page are kept


def check_video(path: str, limits: Limits) -> float:
    """Return the seconds of a video; decodes nothing.

    Frames times pixels are limited, since they take the time: to 60 frames of 1920 x 1080 for each
    second of the longest video. Smaller frames count as much.

    Raises:
        UserError: If the file is too large, no video, too long, or has too many frames or pixels.
    """
    size = os.path.getsize(path) / 1e6
    if size > limits.max_mb:
        raise UserError(f"a file must have at most {limits.max_mb:g} MB, got {size:.1f} MB")
    video = Video.open(path, max_pixels=MAX_PIXELS)
    frames = len(video)
    seconds = video.duration if video.get_avg_fps() else math.inf
    if seconds > limits.max_seconds:
        raise UserError(f"a video must have at most {limits.max_seconds:g} s, got {seconds:.1f} s")
    height, width = video.reader.stored_size
    full = min(1.0, FULL_HD / max(width * height, 1))
    most = int(limits.max_seconds * MAX_FPS * full)
    if frames > most:
        frame = f"{width} x {height} pixels"
        raise UserError(f"a video of {frame} must have at most {most} frames, got {frames}")
    return seconds

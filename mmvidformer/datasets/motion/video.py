"""mp4 files whose frames are encoded one by one.

A codec that predicts frames from earlier ones leaves traces of the past in each of them: of clips
written as MPEG-4 Part 2 at OpenCV's bit rate, hand-made features of the surroundings of the object
told one of four directions from a single decoded frame in 59% of cases. Encoded on its own, a
frame holds what was drawn and no more.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np

QUALITY = 92


def write_independent_frames(path: Path, frames: np.ndarray, fps: float) -> None:
    """Write a Motion JPEG mp4 in which each frame depends on nothing but itself.

    Args:
        path: File to write, with the suffix ``.mp4``.
        frames: RGB frames (T, H, W, 3), uint8.
        fps: Frames a second.

    Raises:
        RuntimeError: If OpenCV cannot write such files.
    """
    # OpenCV's own encoder adapts its quality to the frames before, so it is handed finished JPEGs.
    codec = cv2.VideoWriter_fourcc(*"MJPG")
    size = (frames.shape[2], frames.shape[1])
    raw = [cv2.VIDEOWRITER_PROP_RAW_VIDEO, 1]
    with _muted_stderr():
        writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, codec, fps, size, raw)
    if not writer.isOpened():
        raise RuntimeError(f"OpenCV {cv2.__version__} cannot write {path} as Motion JPEG")
    for frame in frames:
        _, jpeg = cv2.imencode(".jpg", frame[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        writer.write(jpeg.reshape(1, -1))
    writer.release()


@contextmanager
def _muted_stderr() -> Iterator[None]:
    """Hide what C code prints: for each file FFmpeg tells which tag mp4 has for this codec."""
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)

"""Videos of moving textures, for checks that ask only that there are many."""

from pathlib import Path

import cv2
import numpy as np


def write_videos(folder: Path, count: int, bad: bool = True) -> None:
    """Write videos of a moving texture, with ``bad`` a broken one in ten."""
    folder.mkdir(parents=True)
    for number in range(count):
        path = folder / f"{number:04d}.mp4"
        if bad and number % 10 == 9:
            path.write_bytes(b"no video")
            continue
        rng = np.random.default_rng(number)
        texture = cv2.GaussianBlur(rng.integers(0, 255, (160, 160, 3), dtype=np.uint8), (0, 0), 2)
        x, y = rng.integers(-2, 3, 2)
        writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), 12, (64, 64))
        for frame in range(16):
            top, left = 48 + y * frame, 48 + x * frame
            writer.write(np.ascontiguousarray(texture[top : top + 64, left : left + 64]))
        writer.release()

"""Films (mp4) of pages that are drawn one by one."""

from pathlib import Path

import cv2
import numpy as np


class Film:
    """An MPEG-4 file that grows page by page; a context manager.

    Args:
        path: The .mp4 file.
        fps: Pages a second.
        size: Width and height of the pages in pixels, both even.

    Raises:
        RuntimeError: If OpenCV cannot write the file.
    """

    def __init__(self, path: str | Path, fps: float, size: tuple[int, int]) -> None:
        self._size = size
        self._writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), fps, size)
        if not self._writer.isOpened():
            raise RuntimeError(f"OpenCV cannot write {path} as MPEG-4")

    def add(self, page: np.ndarray) -> None:
        """Append an RGB page (height, width, 3), 8 bit.

        Raises:
            ValueError: If it is of another size, which OpenCV would leave out without a word.
        """
        if page.shape[1::-1] != self._size:
            raise ValueError(f"a page of {page.shape[1::-1]} pixels in a film of {self._size}")
        self._writer.write(cv2.cvtColor(page, cv2.COLOR_RGB2BGR))

    def close(self) -> None:
        """Finish the file."""
        self._writer.release()

    def __enter__(self) -> "Film":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def write_line(
    page: np.ndarray,
    text: str,
    place: tuple[int, int],
    width: int | None = None,
    scale: float = 0.6,
    colour: tuple[int, int, int] = (255, 255, 255),
) -> None:
    """Write a line on a page, small enough to fit.

    Args:
        page: RGB (H, W, 3), changed in place.
        text: The line; OpenCV's fonts have ASCII only, and show ``?`` for the rest.
        place: Left end and base line in pixels.
        width: Most pixels that it may take; default: to 8 pixels from the page's right edge.
        scale: Size of the letters where they fit; 0.6 are about 13 pixels high.
        colour: RGB.
    """
    font = cv2.FONT_HERSHEY_SIMPLEX
    width = page.shape[1] - 8 - place[0] if width is None else width
    (taken, _), _ = cv2.getTextSize(text, font, scale, 1)
    scale *= min(1.0, width / max(taken, 1))
    cv2.putText(page, text, place, font, scale, colour, 1, cv2.LINE_AA)

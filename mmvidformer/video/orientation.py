"""How stored pictures are turned and mirrored to be upright."""

from typing import NamedTuple

import numpy as np
from av import VideoFrame
from av.sidedata.sidedata import Type
from av.video.reformatter import VideoReformatter


class Orientation(NamedTuple):
    """Stored pictures are mirrored first, left to right, and turned then.

    Attributes:
        mirrored: Whether they are mirrored.
        turns: Quarter turns, counterclockwise.
    """

    mirrored: bool = False
    turns: int = 0

    def apply(self, image: np.ndarray) -> np.ndarray:
        """Return a stored image (H, W, 3) upright."""
        image = image[:, ::-1] if self.mirrored else image
        return np.ascontiguousarray(np.rot90(image, self.turns))


def orientation_of(frame: VideoFrame) -> Orientation:
    """Read the display matrix of a frame."""
    try:
        matrix = frame.side_data.get(Type.DISPLAYMATRIX)
    except ValueError:  # PyAV does not know all kinds of side data, such as Exif of pictures
        return Orientation(turns=round(frame.rotation / 90) % 4)
    return Orientation() if matrix is None else read_matrix(np.frombuffer(bytes(matrix), np.int32))


def read_matrix(matrix: np.ndarray) -> Orientation:
    """Read a display matrix (9,), that of the header of an MP4 track (ISO/IEC 14496-12, 6.2.2).

    A point (x, y), y downwards, goes to (a x + c y, b x + d y). Other angles than quarter turns
    are rounded.
    """
    a, b, _, c, d = matrix[:5].astype(float)
    mirrored = a * d - b * c < 0
    if mirrored:
        a, b = -a, -b
    # x goes to (a, b): counterclockwise on the screen, whose y goes downwards.
    return Orientation(bool(mirrored), round(np.degrees(np.arctan2(-b, a)) / 90) % 4)


def upright(converter: VideoReformatter, frame: VideoFrame) -> np.ndarray:
    """Convert a frame to RGB pixels (H, W, 3), uint8, upright."""
    image = converter.reformat(frame, format="rgb24", threads=1).to_ndarray()
    return orientation_of(frame).apply(image)

"""What decodes the frames of a video, behind ``Video``; here those of an array."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from mmvidformer.errors import UserError
from mmvidformer.video.facts import require_frames, require_one_size
from mmvidformer.video.index import Index
from mmvidformer.video.orientation import Orientation
from mmvidformer.video.times import FrameTimes

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 16  # frames of which readers without small images decode at a time


class Reader(ABC):
    """Decodes frames, which are numbered in the order of display. Threads may share one.

    A file may have fewer frames than its container states. When such a frame is met, ``index``
    becomes shorter, and the last real frame is returned instead. All methods raise ``BadVideo``
    for what cannot be decoded.

    Attributes:
        name: Path of the file, or what else it is, for messages.
        index: The frames.
    """

    name: str
    index: Index

    @property
    def times(self) -> FrameTimes:
        """Seconds of the frames."""
        return self.index.times

    @property
    @abstractmethod
    def stored_size(self) -> tuple[int, int]:
        """Height and width of frames before they are turned upright."""

    @property
    def orientation(self) -> Orientation:
        """How frames are turned upright."""
        return Orientation()

    @abstractmethod
    def decode(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Decode frames, whose numbers ascend, to upright RGB images (H, W, 3), uint8."""

    def decode_tensor(self, numbers: np.ndarray) -> "Tensor":
        """Decode frames of one size to (N, H, W, 3), uint8, where the reader decodes.

        Raises:
            BadVideo: If the frames differ in size.
        """
        import torch  # takes a second, and data check needs none

        images = self.decode(numbers)
        require_one_size(self.name, (image.shape[:2] for image in images))
        return torch.from_numpy(np.stack(images))

    def previews(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the numbers of all frames, and RGB images of them, which may be small, in order."""
        for first in range(0, self.index.length, CHUNK):
            numbers = np.arange(first, min(first + CHUNK, self.index.length))
            yield from zip(numbers.tolist(), self.decode(numbers), strict=True)


class ArrayReader(Reader):
    """Takes the frames from an array.

    Args:
        array: RGB (T, H, W, 3), uint8.
        rate: Frames per second; 0: unknown.
    """

    name = "the array"

    def __init__(self, array: np.ndarray, rate: float = 0.0) -> None:
        if array.ndim != 4 or array.shape[-1] != 3 or array.dtype != np.uint8:
            shape = f"{array.shape} of {array.dtype}"
            raise UserError(f"an array must be (T, H, W, 3) of type uint8, got {shape}")
        self.array, self.index = array, Index(len(array), FrameTimes(rate))

    @property
    def stored_size(self) -> tuple[int, int]:
        """Height and width."""
        return self.array.shape[1:3]

    def decode(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Copy frames."""
        require_frames(self.name, len(self.array))
        return [self.array[number].copy() for number in numbers]

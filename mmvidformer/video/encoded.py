"""A clip whose video is decoded later, on another device."""

import logging
import os
from dataclasses import dataclass
from threading import Event
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mmvidformer.errors import UserError
from mmvidformer.storage.range_file import MOST_BYTES
from mmvidformer.video.errors import BadVideo, blame
from mmvidformer.video.video import Video

TOLERANCE = 1e-2  # pixels

logger = logging.getLogger("mmvidformer")
_said_of_cpu = Event()


class Crop(NamedTuple):
    """A part of frames that is stretched to pixels.

    Attributes:
        rows: Where the rows of the pixels (h,) are in the frames, from 0, also between two rows.
        columns: Where the columns (w,) are.
    """

    rows: np.ndarray
    columns: np.ndarray


@dataclass(frozen=True)
class EncodedClip:
    """Frames of a video that is decoded, resized and cropped later, on any device.

    Attributes:
        source: The file (bytes,), uint8, or the path of a large local one.
        name: What messages call the video.
        numbers: Numbers of the frames in the file (N,), in the order of display.
        size: Height and width of the frames.
        crops: Parts of them.
        clip_len: Frames of a clip, for clips (views, 3, T, H, W). None: (views, 3, H, W).
        collapse: Whether the axis of the views, of which there is one, is left out.
    """

    source: Tensor | str
    name: str
    numbers: np.ndarray
    size: tuple[int, int]
    crops: tuple[Crop, ...] = ()
    clip_len: int | None = None
    collapse: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the decoded clip."""
        height, width = len(self.crops[0].rows), len(self.crops[0].columns)
        count = len(self.crops) * len(self.numbers)
        views = (count, 3, height, width)
        if self.clip_len is not None:
            views = (count // self.clip_len, 3, self.clip_len, height, width)
        return views[1:] if self.collapse else views

    def decode(self, device: torch.device) -> Tensor:
        """Decode on a device, or on the CPU what that device cannot decode.

        Returns:
            RGB pixels of type uint8, on the device, as ``FormatShape`` orders them.

        Raises:
            BadVideo: If the CPU cannot decode the video either.
        """
        numbers, places = np.unique(self.numbers, return_inverse=True)
        frames = self._decode_frames(numbers, device)
        in_order = torch.from_numpy(places).to(device)
        views = [_stretch(frames, crop).permute(0, 3, 1, 2)[in_order] for crop in self.crops]
        pixels = torch.cat(views)  # (crops N, 3, h, w)
        if self.clip_len is not None:
            pixels = pixels.unflatten(0, (-1, self.clip_len)).transpose(1, 2)
        return pixels.reshape(self.shape)

    def _decode_frames(self, numbers: np.ndarray, device: torch.device) -> Tensor:
        """Decode whole frames (N, H, W, 3), whose numbers ascend."""
        try:
            return self._decode_by("torchcodec", numbers, device)
        except BadVideo as error:
            _warn_of_cpu(self.name, error)
        return self._decode_by("pyav", numbers, device)

    def _decode_by(self, backend: str, numbers: np.ndarray, device: torch.device) -> Tensor:
        source = self.source if isinstance(self.source, str) else self.source.numpy().tobytes()
        with blame(self.name, backend):
            video = Video.open(source, backend, name=self.name, device=str(device))
            last = video.reader.index.length - 1
            frames = video.reader.decode_tensor(np.minimum(numbers, last)).to(device)
        if frames.shape[1:3] != self.size:
            got = f"{tuple(frames.shape[1:3])} on {device}"
            raise BadVideo(self.name, f"frames must be of {self.size} pixels, got {got}")
        return frames


def content_of(video: Video) -> Tensor | str:
    """Return the content of a video's file (bytes,), or the path of a large local one."""
    source = video.reader.source
    if isinstance(source, str):
        if os.path.getsize(source) > MOST_BYTES:
            return source
        with open(source, "rb") as file:
            content = file.read()
    else:
        source.seek(0)
        content = source.read()
    return torch.from_numpy(np.frombuffer(content, np.uint8).copy())


def places_of(height: int, width: int) -> np.ndarray:
    """Return a picture (H, W, 2) whose pixels tell their places, column and row, float32.

    Transforms that resize, crop and flip tell by it what they do to frames (``crop_of``).
    """
    columns, rows = np.meshgrid(np.arange(width), np.arange(height))
    return np.stack([columns, rows], axis=-1).astype(np.float32)


def crop_of(places: np.ndarray, size: tuple[int, int]) -> Crop:
    """Return the crop that transforms made of ``places_of``.

    Raises:
        UserError: If they did something else than to resize, crop and flip.
    """
    rows, columns = places[:, 0, 1], places[0, :, 0]
    expected = np.stack(np.meshgrid(columns, rows), axis=-1)
    most = np.array(size[::-1]) - 1 + TOLERANCE
    is_inside = (places >= -TOLERANCE).all() and (places <= most).all()
    if not is_inside or not np.allclose(places, expected, rtol=0, atol=TOLERANCE):
        raise UserError("only transforms that resize, crop and flip can follow DecodeLater")
    return Crop(rows.clip(0, size[0] - 1), columns.clip(0, size[1] - 1))


def _stretch(frames: Tensor, crop: Crop) -> Tensor:
    """Return a crop (N, h, w, 3) of frames (N, H, W, 3), uint8."""
    columns = _interpolate(frames, crop.columns, axis=2)
    return _interpolate(columns, crop.rows, axis=1).round().byte()


def _interpolate(pixels: Tensor, places: np.ndarray, axis: int) -> Tensor:
    """Return the values at some places of an axis, linear between pixels."""
    at = torch.from_numpy(places).to(pixels.device)
    before = at.floor().long()
    after = (before + 1).clamp(max=pixels.shape[axis] - 1)
    low, high = (pixels.index_select(axis, numbers).float() for numbers in (before, after))
    shares = (at - before).reshape([-1 if number == axis else 1 for number in range(pixels.ndim)])
    return low.lerp(high, shares)


def _warn_of_cpu(name: str, error: BadVideo) -> None:
    """Say it for the first video; there may be a million of the same codec."""
    if _said_of_cpu.is_set():
        return
    _said_of_cpu.set()
    text = "%s is decoded on the CPU (%s); further ones are not named"
    logger.warning(text, name, error.reason)

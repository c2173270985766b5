"""Drawing an object that moves over a textured background, and encoding it.

The frame is a torus: what leaves at one side enters at the other. As an object's start is uniform
over the torus, single frames have the same distribution for all directions, and a model that sees
single frames cannot beat chance.

A codec that predicts frames from earlier ones leaves traces of the past in each of them. In clips
encoded as MPEG-4 Part 2 at OpenCV's bit rate, hand-made features of the surroundings of the object
identified one of four directions from a single decoded frame in 59% of cases. A frame that is
encoded on its own holds what was drawn and nothing else.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path

import av
import cv2
import numpy as np

from lab.synthetic.settings import setting
from mmvidformer.errors import UserError

# Clockwise, in the order in which classes are added.
DIRECTIONS = {"right": (1, 0), "down": (0, 1), "left": (-1, 0), "up": (0, -1)}
SHAPES = ("circle", "square", "triangle", "star")

QUALITY = 92
ENCODING = f"Motion JPEG, quality {QUALITY}"
_SHIFT = 4  # sub-pixel bits of OpenCV's drawing functions


@dataclass(frozen=True)
class Look:
    """How clips look and move.

    Raises:
        UserError: If ``colors`` is none of these.
    """

    size: int = setting(
        64, "side of the square frame in pixels; decord cannot read 48 and 72, for example"
    )
    frames: int = setting(48, "number of frames per clip")
    object_size: float = setting(0.4, "diameter of the object as a share of the side")
    speed: float = setting(
        1.5, "pixels per frame; the speed of each object is drawn within a fifth of it"
    )
    texture: float = setting(10.0, "standard deviation of the background in gray levels")
    colors: str = setting("random", "'random' colors per clip, or 'plain', white on black")

    def __post_init__(self) -> None:
        if self.colors not in ("random", "plain"):
            raise UserError(f"colors must be 'random' or 'plain', got {self.colors!r}")


def trajectory(look: Look, direction: str, frames: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the path of an object in one direction: its centers (frames, 2), x and y."""
    step = look.speed * rng.uniform(0.8, 1.2) * np.array(DIRECTIONS[direction])
    start = rng.uniform(0, look.size, 2)
    return (start + np.arange(frames)[:, None] * step) % look.size


def render(
    look: Look,
    shape: str,
    centers: np.ndarray,
    rng: np.random.Generator,
    background: np.ndarray | None = None,
) -> np.ndarray:
    """Draw an object that moves over a background: RGB frames (T, size, size, 3), uint8.

    Args:
        look: How it looks.
        shape: A name of ``SHAPES``.
        centers: Center of the object in each frame (T, 2).
        rng: Generator of the colors and the angle.
        background: Result of ``draw_background``, or frames. Default: a new one.
    """
    background = draw_background(look, rng) if background is None else background
    color, angle = _color(look, rng), rng.uniform(0, 2 * np.pi)
    frames = np.broadcast_to(background, (len(centers), *background.shape[-3:])).copy()
    for frame, center in zip(frames, centers, strict=True):
        outline = center + look.object_size * look.size / 2 * _outline(shape, angle)
        for shift in product((-look.size, 0, look.size), repeat=2):  # the frame is a torus
            points = np.round((outline + shift) * 2**_SHIFT).astype(np.int32)
            cv2.fillPoly(frame, [points], color, lineType=cv2.LINE_AA, shift=_SHIFT)
    return frames


def draw_parts(
    look: Look, parts: Iterable[tuple[str, str, int]], rng: np.random.Generator
) -> np.ndarray:
    """Draw objects that replace one another over a background: RGB frames (T, size, size, 3).

    Args:
        look: How they look and move.
        parts: Shape, direction and number of frames of each object.
        rng: Generator of everything else.
    """
    background = draw_background(look, rng)
    drawn = [
        render(look, shape, trajectory(look, direction, frames, rng), rng, background)
        for shape, direction, frames in parts
    ]
    return np.concatenate(drawn)


def draw_background(look: Look, rng: np.random.Generator) -> np.ndarray:
    """Draw a smooth texture that continues across the borders: (size, size, 3), RGB, uint8."""
    noise = rng.normal(0, 1, (look.size, look.size, 3))
    frequency = np.fft.fftfreq(look.size) * look.size
    distance = np.hypot(frequency[:, None], frequency[None])
    smooth = np.fft.ifft2(np.fft.fft2(noise, axes=(0, 1)) * np.exp(-distance / 4)[..., None],
                          axes=(0, 1)).real  # fmt: skip
    smooth = (smooth - smooth.mean()) / smooth.std()
    mean = rng.uniform(80, 176, 3) if look.colors == "random" else np.zeros(3)
    return np.clip(mean + look.texture * smooth, 0, 255).astype(np.uint8)


def _color(look: Look, rng: np.random.Generator) -> tuple[int, int, int]:
    """Draw a color that stands out: each channel dark or bright, not all the same; or white."""
    if look.colors == "plain":
        return 255, 255, 255
    bright = rng.permutation(np.array([0, 1, rng.integers(0, 2)], dtype=bool))
    return tuple(int(rng.integers(190, 256) if b else rng.integers(0, 66)) for b in bright)


def _outline(shape: str, angle: float) -> np.ndarray:
    corners = {"circle": 32, "square": 4, "triangle": 3, "star": 10}[shape]
    angles = angle + np.arange(corners) * 2 * np.pi / corners
    radii = np.where(np.arange(corners) % 2, 0.45, 1.0) if shape == "star" else np.ones(corners)
    return radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def write_video(path: Path, frames: np.ndarray, fps: int) -> None:
    """Write RGB frames (T, H, W, 3), uint8, to a Motion JPEG mp4."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream("mjpeg", rate=fps)
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], "yuvj420p"
        for number, frame in enumerate(frames):
            _, jpeg = cv2.imencode(".jpg", frame[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
            packet = av.Packet(jpeg.tobytes())
            packet.stream, packet.time_base = stream, Fraction(1, fps)
            packet.pts, packet.dts, packet.is_keyframe = number, number, True
            file.mux(packet)


def write_film(path: Path, frames: np.ndarray, fps: int) -> None:
    """Write RGB frames (T, H, W, 3), uint8, of even size to an H.264 mp4, which browsers play."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream("h264", rate=fps)
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], "yuv420p"
        for frame in [*map(av.VideoFrame.from_ndarray, frames), None]:
            file.mux(stream.encode(frame))

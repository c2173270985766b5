"""Draws the clips of the motion data set: one object that moves over a texture.

The frame is a torus: what leaves at one side comes in at the other. With a start that is uniform
over the torus, every single frame of a clip has the same distribution whatever the direction, so
that a model that sees single frames can't do better than chance.
"""

from dataclasses import dataclass

import cv2
import numpy as np

# Names in the order in which classes are added: 4 axes first, then the diagonals.
DIRECTIONS = {
    "right": (1, 0),
    "down": (0, 1),
    "left": (-1, 0),
    "up": (0, -1),
    "down right": (1, 1),
    "down left": (-1, 1),
    "up left": (-1, -1),
    "up right": (1, -1),
}
SHAPES = ("circle", "square", "triangle", "star")

_SHIFT = 4  # sub-pixel bits of OpenCV's drawing functions


@dataclass(frozen=True)
class Look:
    """How clips look and move.

    Args:
        size: Side of the square frame in pixels.
        frames: Frames of a clip.
        object_size: Diameter of the object as a share of the side.
        speed: Pixels a frame; each clip draws its own within a fifth of this.
        texture: Standard deviation of the background in grey levels.
        clutter: Shapes that stand still in the background.
        shake: Standard deviation of the camera's jump between frames, in pixels.
        noise: Standard deviation of the noise of each frame, in grey levels.
        colours: ``'random'``, drawn for each clip, or ``'plain'``: white on black, so that what
            is object and what is background needs no learning.

    Raises:
        ValueError: If ``colours`` is neither.
    """

    size: int = 64
    frames: int = 48
    object_size: float = 0.4
    speed: float = 1.5
    texture: float = 10.0
    clutter: int = 0
    shake: float = 0.0
    noise: float = 0.0
    colours: str = "random"

    def __post_init__(self) -> None:
        if self.colours not in ("random", "plain"):
            raise ValueError(f"colours must be 'random' or 'plain', got {self.colours!r}")

    def check(self) -> None:
        """Refuse what can't be written.

        Raises:
            ValueError: If the side is not a multiple of 64 pixels.
        """
        if self.size <= 0 or self.size % 64:
            # decord 0.6 fails on MPEG-4 files of some other small widths, 48 and 72 for two.
            raise ValueError(f"size must be a multiple of 64 pixels, got {self.size}")


def trajectory(look: Look, direction: str, rng: np.random.Generator) -> np.ndarray:
    """Centre of the object in each frame, (frames, 2) as x, y in [0, size)."""
    step = np.array(DIRECTIONS[direction], dtype=np.float64)
    step *= draw_speed(look, rng) / np.linalg.norm(step)
    start = rng.uniform(0, look.size, 2)
    return (start + np.arange(look.frames)[:, None] * step) % look.size


def camera(look: Look, rng: np.random.Generator) -> np.ndarray:
    """Offset of the whole frame at each time, (frames, 2) in whole pixels."""
    jumps = rng.normal(0, look.shake, (look.frames, 2)) if look.shake else np.zeros(2)
    return np.broadcast_to(np.round(jumps).astype(int), (look.frames, 2))


def draw_speed(look: Look, rng: np.random.Generator) -> float:
    """Speed of one object in pixels a frame, within a fifth of ``look.speed``."""
    return look.speed * rng.uniform(0.8, 1.2)


def render(
    look: Look, shape: str, centres: np.ndarray, offsets: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw a clip: ``draw_object`` over a ``draw_background`` of its own."""
    return draw_object(look, draw_background(look, rng), shape, centres, offsets, rng)


def draw_background(look: Look, rng: np.random.Generator) -> np.ndarray:
    """Draw texture and clutter, an RGB image (size, size, 3), uint8."""
    background = _texture(look, rng)
    radius = look.object_size * look.size / 2
    for _ in range(look.clutter):
        centre = rng.uniform(0, look.size, 2)
        _draw(
            background, rng.choice(SHAPES), centre, radius * rng.uniform(0.5, 1), _colour(look, rng)
        )
    return background


def draw_object(
    look: Look,
    background: np.ndarray,
    shape: str,
    centres: np.ndarray,
    offsets: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw an object that moves over a background.

    Args:
        look: How it looks.
        background: From ``draw_background``.
        shape: A name of ``SHAPES``.
        centres: From ``trajectory``.
        offsets: From ``camera``.
        rng: Draws colour, angle and noise.

    Returns:
        RGB frames (frames, size, size, 3), uint8.
    """
    radius = look.object_size * look.size / 2
    colour, angle = _colour(look, rng), rng.uniform(0, 2 * np.pi)
    frames = np.empty((len(centres), look.size, look.size, 3), dtype=np.uint8)
    for i, (centre, offset) in enumerate(zip(centres, offsets, strict=True)):
        frame = background.copy()
        _draw(frame, shape, centre, radius, colour, angle)
        frame = np.roll(frame, tuple(offset[::-1]), axis=(0, 1))
        if look.noise:
            frame = np.clip(frame + rng.normal(0, look.noise, frame.shape), 0, 255)
        frames[i] = frame
    return frames


def _texture(look: Look, rng: np.random.Generator) -> np.ndarray:
    """Smooth random background that continues over the borders."""
    noise = rng.normal(0, 1, (look.size, look.size, 3))
    frequency = np.fft.fftfreq(look.size) * look.size
    distance = np.hypot(frequency[:, None], frequency[None])
    smooth = np.fft.ifft2(np.fft.fft2(noise, axes=(0, 1)) * np.exp(-distance / 4)[..., None],
                          axes=(0, 1)).real  # fmt: skip
    smooth = (smooth - smooth.mean()) / smooth.std()
    mean = rng.uniform(80, 176, 3) if look.colours == "random" else np.zeros(3)
    return np.clip(mean + look.texture * smooth, 0, 255).astype(np.uint8)


def _colour(look: Look, rng: np.random.Generator) -> tuple[int, int, int]:
    """White, or a colour that stands out: each channel dark or bright, not all the same."""
    if look.colours == "plain":
        return 255, 255, 255
    bright = rng.permutation(np.array([0, 1, rng.integers(0, 2)], dtype=bool))
    return tuple(int(rng.integers(190, 256) if b else rng.integers(0, 66)) for b in bright)


def _draw(
    image: np.ndarray,
    shape: str,
    centre: np.ndarray,
    radius: float,
    colour: tuple[int, int, int],
    angle: float = 0.0,
) -> None:
    """Draw a filled shape on the torus, in place."""
    outline = centre + radius * _outline(shape, angle)
    size = image.shape[0]
    for dx in (-size, 0, size):
        for dy in (-size, 0, size):
            points = np.round((outline + (dx, dy)) * 2**_SHIFT).astype(np.int32)
            cv2.fillPoly(image, [points], colour, lineType=cv2.LINE_AA, shift=_SHIFT)


def _outline(shape: str, angle: float) -> np.ndarray:
    corners = {"circle": 32, "square": 4, "triangle": 3, "star": 10}[shape]
    angles = angle + np.arange(corners) * 2 * np.pi / corners
    radii = np.where(np.arange(corners) % 2, 0.45, 1.0) if shape == "star" else np.ones(corners)
    return radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)

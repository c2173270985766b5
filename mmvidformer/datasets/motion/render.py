"""Drawing: an object that moves over a textured background.

The frame is a torus: what leaves at one side enters at the other. As an object's start is uniform
over the torus, single frames have the same distribution for all directions, and a model that sees
single frames cannot beat chance.
"""

from dataclasses import dataclass

import cv2
import numpy as np

# In the order in which classes are added: the axes first, then the diagonals.
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
        size: Side of the square frame in pixels, a multiple of 64.
        frames: Number of frames per clip.
        object_size: Diameter of the object as a share of the side.
        speed: Pixels per frame. Each object draws its own speed within a fifth of it.
        texture: Standard deviation of the background in gray levels.
        clutter: Number of static shapes in the background.
        shake: Standard deviation of the camera's jump from frame to frame, in pixels.
        noise: Standard deviation of the noise of each frame, in gray levels.
        colors: ``'random'`` colors per clip, or ``'plain'``, white on black.

    Raises:
        ValueError: If ``size`` or ``colors`` is none of these.
    """

    size: int = 64
    frames: int = 48
    object_size: float = 0.4
    speed: float = 1.5
    texture: float = 10.0
    clutter: int = 0
    shake: float = 0.0
    noise: float = 0.0
    colors: str = "random"

    def __post_init__(self) -> None:
        if self.colors not in ("random", "plain"):
            raise ValueError(f"colors must be 'random' or 'plain', got {self.colors!r}")
        # decord 0.6 cannot decode small files of some other widths, such as 48 and 72.
        if self.size <= 0 or self.size % 64:
            raise ValueError(f"size must be a multiple of 64 pixels, got {self.size}")


def trajectory(look: Look, direction: str, frames: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the path of an object in one direction: its centers (frames, 2), x and y."""
    step = np.array(DIRECTIONS[direction], dtype=np.float64)
    step *= draw_speed(look, rng) / np.linalg.norm(step)
    start = rng.uniform(0, look.size, 2)
    return (start + np.arange(frames)[:, None] * step) % look.size


def draw_speed(look: Look, rng: np.random.Generator) -> float:
    """Draw the speed of an object in pixels per frame."""
    return look.speed * rng.uniform(0.8, 1.2)


def camera(look: Look, frames: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the offset of each frame, (frames, 2) in whole pixels."""
    jumps = rng.normal(0, look.shake, (frames, 2)) if look.shake else np.zeros(2)
    return np.broadcast_to(np.round(jumps).astype(int), (frames, 2))


def draw_background(look: Look, rng: np.random.Generator) -> np.ndarray:
    """Draw texture and clutter, an RGB image (size, size, 3), uint8."""
    background = _texture(look, rng)
    radius = look.object_size * look.size / 2
    for _ in range(look.clutter):
        center = rng.uniform(0, look.size, 2)
        shape, scale = rng.choice(SHAPES), rng.uniform(0.5, 1)
        _draw(background, shape, center, radius * scale, _color(look, rng))
    return background


def render(
    look: Look,
    shape: str,
    centers: np.ndarray,
    rng: np.random.Generator,
    background: np.ndarray | None = None,
) -> np.ndarray:
    """Draw an object that moves over a background.

    Args:
        look: How it looks.
        shape: A name of ``SHAPES``.
        centers: Center of the object in each frame (T, 2), before the camera's offset.
        rng: Generator of the camera's offsets, the colors, the angle and the noise.
        background: Result of ``draw_background``. Default: a new one.

    Returns:
        RGB frames (T, size, size, 3), uint8.
    """
    offsets = camera(look, len(centers), rng)
    background = draw_background(look, rng) if background is None else background
    radius = look.object_size * look.size / 2
    color, angle = _color(look, rng), rng.uniform(0, 2 * np.pi)
    frames = np.empty((len(centers), *background.shape), dtype=np.uint8)
    for i, (center, offset) in enumerate(zip(centers, offsets, strict=True)):
        frame = background.copy()
        _draw(frame, shape, center, radius, color, angle)
        frame = np.roll(frame, tuple(offset[::-1]), axis=(0, 1))
        if look.noise:
            frame = np.clip(frame + rng.normal(0, look.noise, frame.shape), 0, 255)
        frames[i] = frame
    return frames


def _texture(look: Look, rng: np.random.Generator) -> np.ndarray:
    """Draw a smooth random background that continues across the borders."""
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


def _draw(
    image: np.ndarray,
    shape: str,
    center: np.ndarray,
    radius: float,
    color: tuple[int, int, int],
    angle: float = 0.0,
) -> None:
    """Draw a filled shape on the torus, in place."""
    outline = center + radius * _outline(shape, angle)
    size = image.shape[0]
    for dx in (-size, 0, size):
        for dy in (-size, 0, size):
            points = np.round((outline + (dx, dy)) * 2**_SHIFT).astype(np.int32)
            cv2.fillPoly(image, [points], color, lineType=cv2.LINE_AA, shift=_SHIFT)


def _outline(shape: str, angle: float) -> np.ndarray:
    corners = {"circle": 32, "square": 4, "triangle": 3, "star": 10}[shape]
    angles = angle + np.arange(corners) * 2 * np.pi / corners
    radii = np.where(np.arange(corners) % 2, 0.45, 1.0) if shape == "star" else np.ones(corners)
    return radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)

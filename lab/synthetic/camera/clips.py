"""Drawing what a moving camera sees."""

from collections.abc import Sequence

import cv2
import numpy as np

from lab.synthetic.camera.paths import (
    FPS,
    SHAKIEST,
    Size,
    draw_steps,
    draw_velocity,
    integrate,
    measure_shake,
    sides_of,
    window,
)
from lab.synthetic.camera.textures import SIDE, texture

# How often hard clips have scenes other than noise, shake, objects, changing light, blur, noise and
# compression.
_SHARES = np.array([1, 0.7, 0.5, 0.5, 0.3, 0.6, 0.5])
_LINEAR = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP


def draw_clip(
    label: int,
    rng: np.random.Generator,
    size: Size = 64,
    frames: int = 8,
    pictures: Sequence[int] = range(300),
    hardness: float = 1.0,
    shakiest: float = SHAKIEST,
    **speeds: float,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Draw a clip of a class, ``FPS`` frames a second.

    Args:
        label: Number of the class in ``paths.CLASSES``.
        rng: Generator.
        size: Size in pixels; velocities count its short side as one width.
        frames: Number of frames.
        pictures: Numbers of the pictures (``textures.texture``), one of which the camera sees.
        hardness: Probability, 0 to 1, of all that makes clips harder: scenes other than noise,
            other motions beside the main one, changing speed, shake, objects that move on their
            own, changing light, blur, noise and compression.
        shakiest: Largest standard deviation of the shake, as a share of the width.
        **speeds: ``fastest`` and ``beside`` of ``paths.draw_velocity``.

    Returns:
        RGB frames (T, H, W, 3), uint8, and the velocity (4,) and the shake of ``paths``.
    """
    velocity = draw_velocity(label, rng, hardness / 2, **speeds)
    scenes, shaken, objects, light, blur, noise, compressed = rng.random(7) < hardness * _SHARES
    steps = draw_steps(velocity, frames, rng, rng.uniform(0, shakiest) if shaken else 0.0)
    numbers = rng.choice(pictures, 1 + 2 * objects)
    scene, *surfaces = (texture(int(number), not scenes) for number in numbers)
    clip = film(scene, steps, *_place(rng, size), size)
    for surface in surfaces:
        add_object(clip, steps, surface, rng)
    brightness = rng.uniform(60, 190) + rng.uniform(-30, 30, 3)
    clip = (clip - np.float32(128)) * (6 ** rng.random() / 4) + np.float32(brightness)
    if light:
        clip *= _light(frames, size, rng)
    if blur:
        sigma = rng.uniform(0.4, 1.2)
        clip = np.stack([cv2.GaussianBlur(frame, (0, 0), sigma) for frame in clip])
    if noise:
        clip += np.float32(rng.uniform(1, 8)) * rng.standard_normal(clip.shape, np.float32)
    clip = np.clip(clip, 0, 255).astype(np.uint8)
    return (_compress(clip, rng) if compressed else clip), velocity, measure_shake(steps)


def film(
    picture: np.ndarray, steps: np.ndarray, center: complex, width: complex, size: Size
) -> np.ndarray:
    """Look at a part of a picture that continues across its borders along a path.

    Args:
        picture: Picture (H, W, 3).
        steps: Motion of the camera (T - 1, 4), from ``paths.draw_steps``.
        center: Pixel of the picture (x + i y) in the middle of the frame in the middle.
        width: Short side of this frame in pixels of the picture, times e^(i turn) if it is turned.
        size: Size of the frames in pixels.

    Returns:
        Frames (T, H, W, 3) of the type of the picture.
    """
    views, sides = [], sides_of(size)
    for a, b in zip(*integrate(steps), strict=True):
        to_scene = window(a, b, center, width, size)
        views.append(
            cv2.warpAffine(picture, to_scene, sides, flags=_LINEAR, borderMode=cv2.BORDER_WRAP)
        )
    return np.stack(views)


def _place(rng: np.random.Generator, size: Size) -> tuple[complex, complex]:
    """Draw the center and the width of a view of a picture."""
    center = complex(*rng.uniform(0, SIDE, 2))
    return center, min(sides_of(size)) * rng.uniform(0.8, 1.8) * np.exp(2j * np.pi * rng.random())


def add_object(
    clip: np.ndarray, steps: np.ndarray, picture: np.ndarray, rng: np.random.Generator
) -> None:
    """Add an object that moves through the scene on its own.

    It is up to half as wide as a square image. It covers as large a part of a wide one.

    Args:
        clip: Frames (T, H, W, 3), changed in place.
        steps: Motion of the camera (T - 1, 4).
        picture: What is on its surface.
        rng: Generator.
    """
    height, width = clip.shape[1:3]
    size, side = (width, height), min(width, height)
    path = steps + rng.normal(0, [0.4, 0.2, 0.2, 0.2], 4) / FPS
    shown = film(picture, path, *_place(rng, size), size) // 2 + rng.integers(128, dtype=np.uint8)
    corners = int(rng.choice([3, 4, 24]))
    turns = rng.uniform(0, 2 * np.pi) + np.arange(corners) * 2 * np.pi / corners
    radii = rng.uniform(0.08, 0.25, 2) * np.sqrt(width * height) / side
    outline = radii[0] * np.cos(turns) + 1j * radii[1] * np.sin(turns)
    middle = np.array([width, height]) / side
    outline += complex(*(rng.uniform(-0.45, 0.45, 2) * middle))
    for frame, view, a, b in zip(clip, shown, *integrate(path), strict=True):
        places = ((outline - b) / a + complex(width, height) / (2 * side)) * side
        mask = np.zeros((height, width), np.uint8)
        points = np.stack([places.real, places.imag], axis=1) * 16
        cv2.fillPoly(mask, [np.int32(points)], 1, shift=4)
        np.copyto(frame, view, where=mask[..., None].astype(bool))


def _light(frames: int, size: Size, rng: np.random.Generator) -> np.ndarray:
    """Draw a brightness (T, H, W, 1) that changes with time and place."""
    right, down = (np.linspace(-1, 1, side, dtype=np.float32) for side in sides_of(size))
    slope = rng.uniform(-0.2, 0.2, 2)
    across = 1 + slope[0] * down[:, None] + slope[1] * right
    over_time = 1 + rng.uniform(-0.2, 0.2) * np.linspace(-1, 1, frames)
    over_time += rng.normal(0, 0.02, frames)
    return np.float32(over_time[:, None, None, None] * across[..., None])


def _compress(clip: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    quality = [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(25, 90))]
    jpegs = [cv2.imencode(".jpg", frame, quality)[1] for frame in clip]
    return np.stack([cv2.imdecode(jpeg, cv2.IMREAD_COLOR) for jpeg in jpegs])

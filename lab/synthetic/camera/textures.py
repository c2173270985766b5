"""Pictures that continue across their borders, for a camera to look at."""

from functools import lru_cache
from itertools import product

import cv2
import numpy as np

SIDE = 256


@lru_cache(maxsize=1024)
def texture(seed: int, plain: bool = False) -> np.ndarray:
    """Draw a picture (SIDE, SIDE, 3), uint8, with mean 128 and standard deviation 40.

    Half of the pictures are noise with a 1/f spectrum, the others dead leaves (discs and polygons
    that cover one another, with radii that follow a power law) or a few shapes on a gradient, with
    noise on top.

    Args:
        seed: Number of the picture.
        plain: Whether it is noise in any case.
    """
    rng = np.random.default_rng([seed, 77])
    picture = _noise(rng, rng.uniform(0.8, 1.6))
    if not plain and rng.random() < 0.5:
        count = int(rng.choice([12, 60, 250]))
        picture = _leaves(rng, count) + rng.choice([0.1, 0.4]) * picture
    picture -= picture.mean(axis=(0, 1))
    return np.clip(128 + 40 * picture / picture.std(), 0, 255).astype(np.uint8, order="C")


def _noise(rng: np.random.Generator, slope: float) -> np.ndarray:
    """Draw noise whose amplitude falls with the frequency to the power of ``slope``."""
    frequency = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.rfftfreq(SIDE)) * SIDE
    frequency[0, 0] = np.inf
    white = np.fft.rfft2(rng.standard_normal((3, SIDE, SIDE), np.float32))
    noise = np.fft.irfft2(white * frequency**-slope).transpose(1, 2, 0)
    gray = noise[..., :1] / noise.std()
    return np.float32(gray + rng.uniform(0, 0.8) * noise / noise.std())


def _leaves(rng: np.random.Generator, count: int) -> np.ndarray:
    picture = np.zeros((SIDE, SIDE, 3), np.float32)
    slope = np.linspace(-1, 1, SIDE, dtype=np.float32) * rng.uniform(0, 1)
    picture += slope[:, None] if rng.random() < 0.5 else slope[:, None, None]
    radii = np.sort(rng.uniform(0.08, 1, count) ** -1.0)[::-1] * 0.02 * SIDE * (250 / count) ** 0.4
    for radius in radii:
        center, corners = rng.uniform(0, SIDE, 2), int(rng.choice([3, 4, 5, 24]))
        color = (rng.normal() + 0.4 * rng.normal(size=3)).tolist()
        turn = rng.uniform(0, 2 * np.pi) + np.arange(corners) * 2 * np.pi / corners
        stretch = np.array([1, rng.uniform(0.3, 1)])
        outline = radius * stretch * np.stack([np.cos(turn), np.sin(turn)], axis=1)
        for shift in product((-SIDE, 0, SIDE), repeat=2):  # the picture is a torus
            cv2.fillPoly(picture, [np.int32(center + outline + shift)], color)
    return picture

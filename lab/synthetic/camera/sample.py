"""The clip that comes with ``camera_motion``: a camera looks at two drawn landscapes.

python -m lab.synthetic.camera.sample mmvidformer/weights/camera_motion.mp4
"""

import sys
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

from lab.synthetic.camera.clips import film

RATE, SIZE = 24, (384, 216)
WIDTH, HEIGHT = 1600, 900  # of the pictures
# Top and bottom of the sky, sun or moon, far and near hills, lit windows.
EVENING = ((58, 74, 140), (252, 186, 122), (255, 236, 190), (150, 118, 150), (30, 34, 58))
NIGHT = ((8, 12, 34), (52, 70, 120), (236, 238, 245), (48, 60, 104), (10, 14, 30))
WINDOW = (255, 214, 130)
STILL = (0.0, 0.0, 0.0, 0.0)
# Seconds and velocity (``paths``) of the parts of a shot: its picture, its middle and short side.
SHOTS = (
    (EVENING, 0, 860 + 440j, 440, ((2, STILL), (3, (0.22, 0, 0, 0)), (3, (0, 0, 0.25, 0)))),
    (NIGHT, 1, 1010 + 420j, 400, ((2.5, (0, -0.2, 0, 0)), (1.5, STILL))),
)


def landscape(palette: tuple, seed: int) -> np.ndarray:
    """Draw hills, a village and trees below a sky: RGB (HEIGHT, WIDTH, 3), uint8."""
    rng = np.random.default_rng([seed, 55])
    top, bottom, light, far, near = (np.array(color, np.float32) for color in palette)
    down = np.linspace(0, 1, HEIGHT, dtype=np.float32)[:, None, None] ** 0.8
    picture = np.repeat(top + (bottom - top) * down, WIDTH, axis=1)
    center, radius = (int(rng.uniform(0.5, 0.7) * WIDTH), int(0.27 * HEIGHT)), 44
    glow = np.zeros((HEIGHT, WIDTH, 1), np.float32)
    cv2.circle(glow, center, radius * 2, 1.0, -1)
    glow = cv2.GaussianBlur(glow, (0, 0), radius)[..., None]
    picture += 0.5 * glow * (light - picture)
    clouds = smooth_noise(rng, (HEIGHT, WIDTH), (18, 90))[..., None]
    picture += 46 * np.clip(clouds - 0.4, 0, 1.2) * (1 - down)
    for _ in range(260 if palette is NIGHT else 0):
        place = int(rng.uniform(0, WIDTH)), int(rng.uniform(0, 0.5 * HEIGHT))
        cv2.circle(picture, place, int(rng.integers(1, 3)), light.tolist(), -1, cv2.LINE_AA)
    cv2.circle(picture, center, radius, light.tolist(), -1, cv2.LINE_AA)
    for depth in np.linspace(0, 1, 4):
        ridge = HEIGHT * (0.5 + 0.3 * depth) - _ridge(rng) * HEIGHT * (0.13 - 0.07 * depth)
        color = far + (near - far) * depth
        rocks = smooth_noise(rng, (HEIGHT, WIDTH), (5, 9))[..., None] * (6 + 8 * (1 - depth))
        is_hill = np.arange(HEIGHT)[:, None] > ridge
        picture = np.where(is_hill[..., None], color + rocks, picture)
        if depth > 0.5:
            _plant(picture, ridge, color * 0.72, rng, round(34 + 50 * depth))
        if 0.6 < depth < 0.9:
            _build(picture, ridge, color, rng)
    return np.clip(picture, 0, 255).astype(np.uint8)


def smooth_noise(
    rng: np.random.Generator, size: tuple[int, int], grain: tuple[int, int]
) -> np.ndarray:
    """Draw noise (H, W) with standard deviation 1, smooth over ``grain`` pixels down and across."""
    noise = rng.standard_normal(size).astype(np.float32)
    noise = cv2.GaussianBlur(noise, (0, 0), sigmaX=grain[1], sigmaY=grain[0])
    return noise / noise.std()


def _ridge(rng: np.random.Generator) -> np.ndarray:
    """Draw the line of hills (WIDTH,), about -1 to 1."""
    waves = np.zeros(WIDTH)
    for octave in range(1, 7):
        phase = rng.uniform(0, 2 * np.pi)
        waves += np.sin(np.arange(WIDTH) * 2 * np.pi * 1.7**octave / WIDTH + phase) / 1.6**octave
    return waves


def _plant(
    picture: np.ndarray, ridge: np.ndarray, color: np.ndarray, rng: np.random.Generator, count: int
) -> None:
    """Add firs to a ridge."""
    for foot in rng.integers(0, WIDTH, count):
        tall, y = int(rng.uniform(24, 64)), int(ridge[foot]) + 8
        for share in (1.0, 0.72, 0.45):
            half = int(0.24 * tall * share) + 2
            base = y - int(tall * (1 - share))
            corners = [(foot - half, base), (foot + half, base), (foot, base - int(0.55 * tall))]
            cv2.fillPoly(picture, [np.int32(corners)], color.tolist(), cv2.LINE_AA)


def _build(
    picture: np.ndarray, ridge: np.ndarray, color: np.ndarray, rng: np.random.Generator
) -> None:
    """Add houses with lit windows to a ridge."""
    for left in range(60, WIDTH - 120, 96):
        wide, tall = (int(side) for side in rng.uniform((40, 34), (74, 70)))
        x, y = left + int(rng.uniform(0, 30)), int(ridge[left]) + 14
        wall = (color * rng.uniform(0.8, 1.5) + 14).tolist()
        cv2.rectangle(picture, (x, y - tall), (x + wide, y + 10), wall, -1)
        roof = [(x - 6, y - tall), (x + wide + 6, y - tall), (x + wide // 2, y - tall - 24)]
        cv2.fillPoly(picture, [np.int32(roof)], (color * 0.5).tolist(), cv2.LINE_AA)
        for column in range(x + 8, x + wide - 10, 16):
            for row in range(y - tall + 8, y - 8, 18):
                if rng.random() < 0.6:
                    cv2.rectangle(picture, (column, row), (column + 7, row + 9), WINDOW, -1)


def draw_sample() -> np.ndarray:
    """Draw the film: RGB frames (T, H, W, 3)."""
    shots = []
    for palette, seed, center, side, parts in SHOTS:
        steps = [np.tile(np.array(velocity) / RATE, (round(t * RATE), 1)) for t, velocity in parts]
        shots.append(film(landscape(palette, seed), np.concatenate(steps), center, side, SIZE))
    return np.concatenate(shots)


def write_sample(path: str | Path) -> None:
    """Write the film as H.264, small rather than fast."""
    options = {"crf": "23", "preset": "veryslow"}
    with av.open(str(path), "w", "mp4", {"movflags": "faststart"}) as file:
        stream = file.add_stream("libx264", Fraction(RATE), options)
        (stream.width, stream.height), stream.pix_fmt = SIZE, "yuv420p"
        for image in draw_sample():
            file.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        file.mux(stream.encode())


if __name__ == "__main__":
    write_sample(sys.argv[1])

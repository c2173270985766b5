"""Clips with a known camera motion, cut from real videos whose camera stands still.

A window moves, grows, shrinks or turns inside the frame while the video plays, so what is in the
scene moves on its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from zlib import crc32

import av
import cv2
import numpy as np

from lab.synthetic.camera.paths import (
    CLASSES,
    FPS,
    THRESHOLD,
    draw_steps,
    draw_velocity,
    integrate,
    window,
)

FRAMES = 8
SHORT_SIDE = 480  # larger frames are made smaller
WIDTHS = (0.4, 0.75)  # of windows, as shares of the short side; down to half of that to fit a path
SHAKE = 0.004  # standard deviation, at most, as a share of the window
BORDER = 0.15  # of the frame, where points show whether the camera stands still
DRIFT = THRESHOLD / 5  # fastest motion of a camera that stands still
POINTS = 5  # fewest points on a side of the frame
STILL = 0.2  # smallest share of the clips of a video whose camera stands still; only they are used
STRUCTURE = 4  # lowest standard deviation in each quarter of a window, in gray levels


class Unusable(ValueError):
    """A video that is no ground truth; the message says why."""


@dataclass
class Window:
    """A clip with a known motion.

    Attributes:
        frames: RGB frames (T, size, size, 3), uint8.
        velocity: Velocity (4,) of ``datasets.motion.camera.paths``.
        label: Number of its class.
    """

    frames: np.ndarray
    velocity: np.ndarray
    label: int


def read_frames(path: Path, most: int = 320) -> np.ndarray:
    """Read frames about 1 / ``FPS`` s apart: RGB (N, H, W, 3), at most the first ``most``."""
    with av.open(str(path)) as file:
        step = max(1, round(float(file.streams.video[0].average_rate or FPS) / FPS))
        frames = []
        for number, frame in enumerate(file.decode(video=0)):
            if number % step == 0:
                image = frame.to_ndarray(format="rgb24")
                scale = min(1, SHORT_SIDE / min(image.shape[:2]))
                size = (round(image.shape[1] * scale), round(image.shape[0] * scale))
                frames.append(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
            if len(frames) == most:
                break
    if len(frames) < FRAMES:
        raise Unusable(f"{len(frames)} frames at {FPS} per second, needs {FRAMES}")
    return np.stack(frames)


def still_clips(frames: np.ndarray) -> list[int]:
    """Find the first frames of clips whose camera stands still.

    It does if near at least three sides of the frame the median motion of points, from the first to
    the last frame, is below ``DRIFT``. A pan, tilt, zoom or roll would move them; something in the
    scene that covers a side moves only that one. A side needs ``POINTS`` points to tell.
    """
    return [n for n in range(0, len(frames) - FRAMES + 1, 2) if _is_still(frames[n : n + FRAMES])]


def _is_still(clip: np.ndarray) -> bool:
    first, last = (cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY) for frame in clip[[0, -1]])
    height, width = first.shape
    ring = round(BORDER * min(first.shape))
    sides = (slice(ring), slice(None)), (slice(-ring, None), slice(None))
    sides += tuple((columns, rows) for rows, columns in sides)
    still = 0
    for side in sides:
        mask = np.zeros_like(first)
        mask[side] = 1
        points = cv2.goodFeaturesToTrack(first, 40, 0.02, 7, mask=mask)
        if points is None or len(points) < POINTS:
            continue
        moved, tracked, _ = cv2.calcOpticalFlowPyrLK(first, last, points, None)
        motion = (moved - points)[tracked == 1]
        if len(motion) >= POINTS:
            speed = np.linalg.norm(np.median(motion, axis=0)) / width * FPS / (FRAMES - 1)
            still += speed < DRIFT
    return still >= 3


def cut_windows(path: Path, count: int, seed: int = 0, size: int = 128) -> Iterator[Window]:
    """Cut clips from a video, with the classes in turn.

    Args:
        path: Video.
        count: Number of clips.
        seed: Random seed.
        size: Width and height of the clips in pixels.

    Raises:
        Unusable: If the video cannot be read, its camera stands still in too few clips (``STILL``),
            or windows show nothing by which a motion could be seen (``STRUCTURE``).
    """
    try:
        frames = read_frames(path)
    except (av.FFmpegError, IndexError) as error:  # IndexError: no video stream
        raise Unusable(f"cannot be read: {error}") from error
    starts = still_clips(frames)
    possible = len(range(0, len(frames) - FRAMES + 1, 2))
    if len(starts) < STILL * possible:
        raise Unusable(f"the camera stands still in {len(starts)} of {possible} clips")
    rng = np.random.default_rng([seed, crc32(path.name.encode())])
    for number in range(count):
        label = number % len(CLASSES)
        for _ in range(50):
            start = int(rng.choice(starts))
            made = _cut(frames[start : start + FRAMES], label, rng, size)
            if made is not None:
                yield made
                break
        else:
            raise Unusable(f"no window for {CLASSES[label]!r} with structure in each quarter")


def _cut(clip: np.ndarray, label: int, rng: np.random.Generator, size: int) -> Window | None:
    """Cut a window along a random path, if it fits and shows some structure."""
    velocity = draw_velocity(label, rng)
    a, b = integrate(draw_steps(velocity, len(clip), rng, rng.uniform(0, SHAKE)))
    sides = np.array(clip.shape[2:0:-1])  # width, height
    width = rng.uniform(*WIDTHS) * sides.min()
    corners = np.array([complex(x, y) for x, y in product((-0.5, 0.5), repeat=2)])
    places = (a[:, None] * corners + b[:, None]).ravel()
    low = np.array([places.real.min(), places.imag.min()])
    high = np.array([places.real.max(), places.imag.max()])
    room = (sides - 2.01) / (high - low)
    width = min(width, room.min())
    if width < WIDTHS[0] / 2 * sides.min():
        return None
    center = complex(*rng.uniform(1 - width * low, sides - 1 - width * high))
    frames = np.stack([_view(*seen, center, width, size) for seen in zip(clip, a, b, strict=True)])
    gray = frames[len(frames) // 2].mean(axis=2)
    quarters = gray.reshape(2, size // 2, 2, size // 2).std(axis=(1, 3))
    return Window(frames, velocity, label) if quarters.min() >= STRUCTURE else None


def _view(
    image: np.ndarray, a: complex, b: complex, center: complex, width: float, size: int
) -> np.ndarray:
    """Look at an image through a window, at twice the size to avoid aliasing."""
    affine, fine = window(a, b, center, width, 2 * size), (2 * size, 2 * size)
    view = cv2.warpAffine(image, affine, fine, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
    return cv2.resize(view, (size, size), interpolation=cv2.INTER_AREA)

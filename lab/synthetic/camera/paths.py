"""Paths of a camera, their velocities and classes.

A velocity is (pan, tilt, zoom, roll) per second: shifts of the camera to the right and down as a
share of the width of the image, the logarithm of the magnification, and radians clockwise. The
names say what the camera does; the image moves the other way, except that it grows when the camera
zooms in.

Velocities of different motions are compared by their speed: how far a point in the middle of an
edge of the square image moves in a second, as a share of the width.

The shake is how far such a point is from the smooth path of the camera: a cubic polynomial, which
follows motions up to about 2 Hz in a second.
"""

import numpy as np

CLASSES = (
    "static",
    "pan left",
    "pan right",
    "tilt up",
    "tilt down",
    "zoom out",
    "zoom in",
    "roll counter-clockwise",
    "roll clockwise",
)
THRESHOLD = 0.05  # speed below which a camera counts as static: 20 s for the width of the image
FASTEST = 0.5
FPS = 8  # frames per second of a clip
EDGE = np.array([1, 1, 0.5, 0.5])  # speed of a unit of each velocity
SHAKIEST = 0.01  # by default, largest standard deviation of the shake, as a share of the width
MIXED = 0.35  # by default, largest speed of other motions, as a share of the speed of the main one


def class_of(velocity: np.ndarray) -> int:
    """Return the class of a velocity (4,): its fastest part, or static."""
    speeds = np.abs(velocity) * EDGE
    part = int(speeds.argmax())
    return 0 if speeds[part] < THRESHOLD else 1 + 2 * part + int(velocity[part] > 0)


def draw_velocity(
    label: int,
    rng: np.random.Generator,
    mixed: float = 0.5,
    fastest: float = FASTEST,
    beside: float = MIXED,
) -> np.ndarray:
    """Draw a velocity (4,) of a class.

    The logarithm of the speed is uniform from ``THRESHOLD`` to ``fastest``. Half of the static
    cameras do not move at all, and the others drift at up to the threshold.

    Args:
        label: Number of the class.
        rng: Generator.
        mixed: Probability that other motions are added.
        fastest: Largest speed.
        beside: Largest speed of other motions, as a share of the speed of the main one.
    """
    part, positive = divmod(label - 1, 2) if label else (rng.integers(4), rng.integers(2))
    drift, fast = THRESHOLD * max(0.0, rng.uniform(-1, 1)), (fastest / THRESHOLD) ** rng.random()
    speed = THRESHOLD * fast if label else drift
    others = rng.uniform(-beside, beside, 4) * rng.integers(0, 2, 4) * (rng.random() < mixed)
    others[part] = 1 if positive else -1
    return speed * others / EDGE


def draw_steps(
    velocity: np.ndarray, frames: int, rng: np.random.Generator, shake: float = 0.0
) -> np.ndarray:
    """Draw the motion from each frame to the next (frames - 1, 4), whose mean is the velocity.

    Args:
        velocity: Velocity (4,) per second.
        frames: Number of frames, ``FPS`` per second.
        rng: Generator.
        shake: Standard deviation of the shake as a share of the width. If it is positive, the
            camera also gets faster or slower.
    """
    time = np.linspace(-1, 1, frames - 1)
    speed = np.ones(frames - 1)
    if shake:
        change, bend = rng.uniform(-0.8, 0.8), rng.uniform(-0.5, 0.5)
        speed = np.maximum(1 + change * time + bend * time**2, 0.1)
    jitter = np.diff(rng.normal(0, shake, (frames, 4)) / EDGE, axis=0)
    return speed[:, None] / speed.mean() * velocity / FPS + jitter - jitter.mean(axis=0)


def measure_shake(steps: np.ndarray) -> float:
    """Return the root mean square distance from the smooth path, as a share of the width.

    Args:
        steps: Motion from each frame to the next (frames - 1, 4), of at least 5 frames.
    """
    path = np.vstack([np.zeros(4), np.cumsum(steps * EDGE, axis=0)])
    powers = np.polynomial.legendre.legvander(np.linspace(-1, 1, len(path)), 3)
    smooth = powers @ np.linalg.lstsq(powers, path, rcond=None)[0]
    return float(np.sqrt(np.square(path - smooth).sum(axis=1).mean()))


def integrate(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the poses of a camera (a, b) from the motion between its frames (T - 1, 4).

    The point z of the image, from its middle and in widths of it, shows the point a z + b of the
    scene; x and y (down) are the real and imaginary parts. Each step is the exponential of its
    velocities, so that reversed and negated steps lead back. The frame in the middle is at
    a = 1, b = 0.
    """
    rates = -steps[:, 2] + 1j * steps[:, 3]
    safe = np.where(rates == 0, 1, rates)
    shifts = (steps[:, 0] + 1j * steps[:, 1]) * np.where(rates == 0, 1, np.expm1(safe) / safe)
    a = np.concatenate([[1], np.exp(np.cumsum(rates))])
    b = np.concatenate([[0], np.cumsum(a[:-1] * shifts)])
    middle = len(a) // 2
    return a / a[middle], (b - b[middle]) / a[middle]


Size = int | tuple[int, int]  # of a square, or width and height, in pixels


def sides_of(size: Size) -> tuple[int, int]:
    """Return width and height."""
    return (size, size) if isinstance(size, int) else size


def window(a: complex, b: complex, center: complex, width: complex, size: Size) -> np.ndarray:
    """Compute the affine map (2, 3) from pixels of an image to those of the scene.

    Args:
        a: Pose, from ``integrate``.
        b: The same.
        center: Pixel of the scene (x + i y) in the middle of the image at a = 1, b = 0.
        width: Short side of the image at a = 1 in pixels of the scene, times e^(i turn) if it is
            turned.
        size: Size of the image in its own pixels.
    """
    sides = sides_of(size)
    a = a * width / min(sides)
    corner = center + width * b - a * complex(sides[0] - 1, sides[1] - 1) / 2
    return np.array([[a.real, -a.imag, corner.real], [a.imag, a.real, corner.imag]])

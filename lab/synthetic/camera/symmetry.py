"""Flips, transposition and time reversal of clips, which change the motion of the camera."""

import numpy as np

# Sign and source of each velocity (pan, tilt, zoom, roll) after the change.
_MIRRORED = {
    "horizontal": ((0, 1, 2, 3), (-1, 1, 1, -1)),
    "vertical": ((0, 1, 2, 3), (1, -1, 1, -1)),
    "transpose": ((1, 0, 2, 3), (1, 1, 1, -1)),
    "reverse": ((0, 1, 2, 3), (-1, -1, -1, -1)),
}
SYMMETRIES = tuple(_MIRRORED)


def flip_clip(frames: np.ndarray, symmetry: str) -> np.ndarray:
    """Apply one of ``SYMMETRIES`` to frames (T, H, W, 3), square ones to transpose them."""
    if symmetry == "transpose":
        return frames.swapaxes(1, 2)
    return np.flip(frames, {"reverse": 0, "vertical": 1, "horizontal": 2}[symmetry])


def flip_velocity(velocity: np.ndarray, symmetry: str) -> np.ndarray:
    """Return the velocity (..., 4) of a camera whose clip was changed by ``flip_clip``."""
    source, signs = _MIRRORED[symmetry]
    return velocity[..., source] * np.array(signs)


def symmetries_of(size: tuple[int, int]) -> tuple[str, ...]:
    """Return the symmetries that keep a size (width, height)."""
    is_square = size[0] == size[1]
    return tuple(name for name in SYMMETRIES if is_square or name != "transpose")


def apply_symmetries(
    frames: np.ndarray,
    velocity: np.ndarray,
    number: int,
    symmetries: tuple[str, ...] = SYMMETRIES,
) -> tuple[np.ndarray, np.ndarray]:
    """Apply to a clip and its velocity those of ``symmetries`` whose bit is set in a number."""
    for bit, symmetry in enumerate(symmetries):
        if number >> bit & 1:
            frames, velocity = flip_clip(frames, symmetry), flip_velocity(velocity, symmetry)
    return frames, velocity

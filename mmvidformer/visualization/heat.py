"""Heat maps over frames: pixels as they were filmed, and the shares of tokens upon them."""

import cv2
import matplotlib
import numpy as np
import torch
from torch import Tensor, nn

COLOURS = "turbo"


def to_frames(preprocessor: nn.Module, clip: Tensor) -> np.ndarray:
    """Undo the normalisation of an ``ActionDataPreprocessor``.

    Args:
        preprocessor: The model's; its mean and standard deviation are of the channels as the
            model gets them, so that after ``to_rgb`` too these are in the order of RGB.
        clip: Normalised pixels (C, T, H, W).

    Returns:
        RGB frames (T, H, W, C), 8 bit.
    """
    mean, std = getattr(preprocessor, "mean", None), getattr(preprocessor, "std", None)
    if mean is not None:
        clip = clip * std.to(clip).reshape(-1, 1, 1, 1) + mean.to(clip).reshape(-1, 1, 1, 1)
    pixels = clip.permute(1, 2, 3, 0).round().clamp(0, 255)
    return pixels.to(torch.uint8).cpu().numpy()


def to_heat(shares: Tensor, tubelet: tuple[int, int, int]) -> np.ndarray:
    """Spread the shares of a clip's tokens over its pixels.

    Args:
        shares: Shares (T, H, W).
        tubelet: Frames, rows and columns of a token.

    Returns:
        Multiples of the mean share, for each pixel that a token covers: (T * t, H * h, W * w).
        Bilinear within a frame between the centres of the patches, the same for all frames of
        a tubelet.
    """
    frames, *patch = tubelet
    maps = (shares / shares.mean()).float().cpu().numpy()
    height, width = (n * p for n, p in zip(maps.shape[1:], patch, strict=True))
    return np.repeat(enlarge(maps, (height, width)), frames, axis=0)


def enlarge(maps: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Spread maps (T, h, w) over frames of a size (H, W): bilinear between centres of places."""
    large = [cv2.resize(m, size[::-1], interpolation=cv2.INTER_LINEAR) for m in maps]
    return np.stack(large)


def overlay(
    frames: np.ndarray,
    heat: np.ndarray,
    opacity: float = 0.5,
    limits: tuple[float, float] | None = None,
) -> np.ndarray:
    """Colour grey copies of frames by their heat, from the clip's coldest to its hottest place.

    Grey, so that no colour of the video passes for heat. It is the largest of the three channels:
    an object of a strong colour keeps its outline, which it may lose in their weighted mean.

    Args:
        frames: RGB (T, H, W, 3), 8 bit.
        heat: Heat (T, H, W) of any range.
        opacity: Of the colours, 0 to 1.
        limits: Heat of the coldest and the hottest colour; default: those of ``heat``.

    Returns:
        RGB (T, H, W, 3), 8 bit.
    """
    low, high = limits or (heat.min(), heat.max())
    scaled = ((heat - low) / max(high - low, 1e-12)).clip(0, 1)
    colours = 255 * matplotlib.colormaps[COLOURS](scaled)[..., :3]
    grey = frames.max(axis=-1, keepdims=True)
    return ((1 - opacity) * grey + opacity * colours).round().astype(np.uint8)

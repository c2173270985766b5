"""Initial tubelet weights that respond to motion."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

STILL = 1 / 6  # share of filters for things that do not move


def gabor_filters(dim: int, tubelet: tuple[int, int, int]) -> Tensor:
    """Draw space-time Gabor filters (D, t, h, w): gratings that drift through a Gaussian window.

    Each pair is the sine and the cosine of a grating, whose squares sum to the motion energy of
    Adelson and Bergen (1985), "Spatiotemporal energy models for the perception of motion".
    Directions are uniform. Logarithms of wavelengths (from 4 pixels to 1.75 times the height of a
    tubelet) and of speeds (from h / 64 to h / 2 pixels per frame) are uniform; some gratings stand
    still. Filters have mean 0 and norm 1.

    Args:
        dim: Number of filters D.
        tubelet: Size in frames, rows and columns.
    """
    axes = [torch.arange(n) - (n - 1) / 2 for n in tubelet]
    t, y, x = torch.meshgrid(*axes, indexing="ij")
    draws = torch.rand(4, (dim + 1) // 2, 1, 1, 1)
    height = tubelet[1]
    frequency = 2 * math.pi / (4 * (1.75 * height / 4) ** draws[0])
    speed = height / 64 * 32 ** draws[1] * (draws[2] > STILL)
    angle = 2 * math.pi * draws[3]
    phase = frequency * (angle.cos() * x + angle.sin() * y - speed * t)
    spread = 2 * (height / 3.2) ** 2, 2 * (tubelet[0] / 3) ** 2
    waves = torch.stack([phase.cos(), phase.sin()], dim=1).flatten(0, 1)[:dim]
    filters = torch.exp(-(x**2 + y**2) / spread[0] - t**2 / spread[1]) * waves
    filters = filters - filters.mean(dim=(1, 2, 3), keepdim=True)
    return F.normalize(filters.flatten(1)).view_as(filters)

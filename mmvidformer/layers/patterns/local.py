"""TimeSformer's local and strided patterns."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.layers.eager import compute_once
from mmvidformer.layers.patterns.base import Pattern
from mmvidformer.layers.tokens import Size, grid_size


@dataclass(frozen=True)
class LocalPattern(Pattern):
    """Each place attends to all frames of a window of half the height and half the width around it.

    The local attention of TimeSformer's "L+G" (paper, section 3: ``F x H/2 x W/2`` neighbors),
    for which there is no public code. The window is clipped at the border: keys outside the grid
    are masked, so a corner has fewer keys. A window of even size reaches one place further up and
    left. The queries of a place in all frames form a group. Keys are gathered once per window that
    they are in; there is no (T H W) x (T H W) mask. In training they are gathered for some heads at
    a time, and again in the backward pass, so that no copies are kept.
    """

    gathers: ClassVar[bool] = True

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys or values in the window of each place, (B, H*W, n, T*h*w, d)."""
        height, width = max(x.shape[2] // 2, 1), max(x.shape[3] // 2, 1)
        up, left = height // 2, width // 2
        x = F.pad(x, (0, 0, 0, 0, left, width - left - 1, up, height - up - 1))
        windows = x.unfold(2, height, 1).unfold(3, width, 1)
        # (B, T, H, W, n, d, h, w) to (B, H, W, n, T, h, w, d)
        return windows.permute(0, 2, 3, 4, 1, 6, 7, 5).flatten(4, 6).flatten(1, 2)

    def mask(self, x: Tensor) -> Tensor:
        """Return which keys are inside the grid, (H*W, 1, 1, T*h*w)."""
        return compute_once(_inside, x, self, grid_size(x), x.device)


def _inside(pattern: LocalPattern, grid: Size, device: torch.device) -> Tensor:
    places = torch.ones(1, *grid, 1, 1, dtype=torch.bool, device=device)
    return pattern.keys(places)[0].transpose(-1, -2)


@dataclass(frozen=True)
class StridedPattern(Pattern):
    """All tokens attend to every second token in time, height and width.

    The sparse global attention of TimeSformer's "L+G" (paper, section 3).
    """

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys or values at even places, (B, 1, n, S', d)."""
        return self.group(x[:, ::2, ::2, ::2])

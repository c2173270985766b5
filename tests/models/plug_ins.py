"""Stems, positions and rotary positions as users write them."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.layers import Positions, RotaryPositions, Stem


class Average(Stem):
    """The mean color of each tubelet, through a linear layer."""

    def __init__(self, dim: int, tubelet: Any, in_channels: int = 3) -> None:
        super().__init__(in_channels, tubelet)
        self.proj = nn.Linear(in_channels, dim)

    def embed(self, clip: Tensor) -> Tensor:
        """Map (B, C, T', H', W') to (B, T, H, W, D)."""
        return self.proj(F.avg_pool3d(clip, self.tubelet).movedim(1, -1))


class Ramp(Positions):
    """A learned direction, times the number of the frame."""

    tables = ("t",)

    def __init__(self, dim: int, size: tuple, cls: bool) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.zeros(dim))

    def forward(self, size: tuple, like: Tensor, cls: Any = None, state: Any = None) -> tuple:
        """Return them."""
        start = 0 if state is None else state.steps
        places = torch.arange(size[0], device=like.device) + start
        return [places.to(like)[:, None, None, None] * self.direction], cls


class Fading(RotaryPositions):
    """Queries fade with the row: no rotation, but a function of the place."""

    axes = "h"

    def __init__(self, head_dim: int) -> None:
        super().__init__()

    def table(self, size: tuple, like: Tensor, start: Any = 0) -> Tensor:
        """Return a factor for each place, and nothing."""
        rows = torch.linspace(1, 0.5, size[1]).to(like)[:, None, None]
        return F.pad(rows.expand(1, *size, 1), (0, 1))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, context: Any) -> tuple:
        """Multiply queries."""
        return q * context.rope[:, :, None, :1], k, v


class ColorsAndFlow(Stem):
    """Two inputs, the colors and the flow of a clip, each with a projection of its own."""

    def __init__(self, dim: int, tubelet: Any) -> None:
        super().__init__(5, tubelet)
        self.colors = nn.Conv3d(3, dim, self.tubelet, self.tubelet)
        self.flow = nn.Conv3d(2, dim, self.tubelet, self.tubelet, bias=False)

    def embed(self, clip: Tensor) -> Tensor:
        """Map (B, 5, T', H', W') to (B, T, H, W, D)."""
        colors, flow = clip.split([3, 2], dim=1)
        return (self.colors(colors) + self.flow(flow)).movedim(1, -1)


class Fourier(Positions):
    """A small network of the place, and a position of the class token."""

    def __init__(self, dim: int, size: tuple, cls: bool) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, dim))
        self.of_cls = nn.Parameter(torch.zeros(dim)) if cls else None

    def forward(self, size: tuple, like: Tensor, cls: Any = None, state: Any = None) -> tuple:
        """Return them."""
        start = 0 if state is None else state.steps
        axes = [torch.arange(count, device=like.device) for count in size]
        axes[0] = axes[0] + start
        places = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
        return [self.net(places.to(like) / 8)], cls if self.of_cls is None else cls + self.of_cls


class Backwards(RotaryPositions):
    """Angles along width, height and time, in this order, and channels in two halves."""

    axes = "wht"

    def __init__(self, head_dim: int, base: float = 100.0) -> None:
        super().__init__()
        self.sizes, self.base = [3 * (head_dim // 6)] * 2 + [head_dim % 6], base

    def table(self, size: tuple, like: Tensor, start: Any = 0) -> Tensor:
        """Return cosines and sines."""
        count = self.sizes[0] // 3
        rates = self.base ** -(torch.arange(count, device=like.device) / count).to(like)
        parts = []
        for axis in self.axes:
            places = torch.arange(size["thw".index(axis)], device=like.device)
            places = (places + (start if axis == "t" else 0)).to(like)
            shape = [len(places) if other == axis else 1 for other in "thw"]
            angles = (places[:, None] * rates).view(*shape, count)
            parts.append(angles.expand(*size, count))
        angles = torch.cat(parts, dim=-1)[None]
        return torch.cat([angles.cos(), angles.sin()], dim=-1)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, context: Any) -> tuple:
        """Turn queries and keys."""
        cos, sin = context.rope[:, :, None].chunk(2, dim=-1)

        def turn(x: Tensor) -> Tensor:
            first, second, unturned = x.split(self.sizes, dim=-1)
            turned = (first * cos - second * sin, first * sin + second * cos)
            return torch.cat([*turned, unturned], dim=-1).to(x.dtype)

        return turn(q), turn(k), v

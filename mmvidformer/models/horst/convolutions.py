"""Convolutional parts of a HORST layer; equations are the paper's.

Letters: B batch, N any number of maps, C channels, h w size of the maps; FF is a ``FeedForward``
without activation, SE squeeze and excitation.
"""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FeedForward(nn.Sequential):
    """A 3 x 3 convolution without bias, a norm over channels and places, and an activation."""

    def __init__(
        self,
        in_channels: int,
        channels: int,
        act: Callable[[], nn.Module] = nn.Identity,
        stride: int = 1,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.norm = nn.GroupNorm(1, channels)  # the paper's layer norm, epsilon 1e-5
        self.act = act()


class StateProjection(nn.Module):
    """Key or value of a state, ``norm(conv([part; ...]))``; eq. 10 and 11.

    A convolution of stacked maps is the sum of convolutions of the maps. Those of e and Q do not
    depend on the past and are computed for all time steps at once, that of h when it is known.

    Args:
        parts: Maps that are stacked: ``'e'``, ``'h'``, ``'eh'`` or ``'qh'``.
        channels: Number of channels C of each map and of the result.
    """

    def __init__(self, parts: str, channels: int) -> None:
        super().__init__()
        self.parts = parts
        self.conv = nn.Conv2d(len(parts) * channels, channels, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(1, channels)

    def _convolve(self, part: str, x: Tensor) -> Tensor:
        kernel = self.conv.weight.chunk(len(self.parts), dim=1)[self.parts.index(part)]
        return F.conv2d(x, kernel, padding=1)

    def ahead(self, maps: Mapping[str, Tensor]) -> Tensor | None:
        """Convolve the part that does not depend on the past, or return None if there is none.

        Args:
            maps: ``'e'`` and ``'q'``, (N, C, h, w) each.
        """
        part = self.parts.removesuffix("h")
        return self._convolve(part, maps[part]) if part else None

    def forward(self, ahead: Tensor | None, h: Tensor) -> Tensor:
        """Complete the projection with the state h (B, C, h, w)."""
        if "h" in self.parts:
            late = self._convolve("h", h)
            ahead = late if ahead is None else ahead + late
        return self.norm(ahead)


class OfficialReadout(nn.Module):
    """The state is STATT, the output ``u + u SE(u)`` with ``u = act(FF_y[x; e + STATT])``."""

    def __init__(self, in_channels: int, channels: int, act: Callable[[], nn.Module]) -> None:
        # Imported at the top, torchvision would be loaded with every backbone.
        from torchvision.ops import SqueezeExcitation

        super().__init__()
        self.out = FeedForward(in_channels + channels, channels, act)
        self.excite = SqueezeExcitation(channels, max(channels // 4, 1))

    def state(self, e: Tensor, statt: Tensor) -> Tensor:
        """Return the state h (B, C, h, w) to remember."""
        return statt

    def forward(self, x: Tensor, e: Tensor, state: Tensor) -> Tensor:
        """Return the output y (N, C, h, w) from x (N, C_in, h, w), e and state (N, C, h, w)."""
        u = self.out(torch.cat([x, state + e], dim=1))
        return u + self.excite(u)


class PaperReadout(nn.Module):
    """The state is ``act(FF_h(e + STATT))``, the output ``act(FF_y(x + h))``; eq. 8.

    The sum needs an x of C channels. If it has another number, a 1 x 1 convolution without bias
    maps it to C channels; the paper does not say how.
    """

    def __init__(self, in_channels: int, channels: int, act: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.hidden = FeedForward(channels, channels, act)
        same = in_channels == channels
        self.shortcut = nn.Identity() if same else nn.Conv2d(in_channels, channels, 1, bias=False)
        self.out = FeedForward(channels, channels, act)

    def state(self, e: Tensor, statt: Tensor) -> Tensor:
        """Return the state h (B, C, h, w) to remember."""
        return self.hidden(e + statt)

    def forward(self, x: Tensor, e: Tensor, state: Tensor) -> Tensor:
        """Return the output y (N, C, h, w) from x (N, C_in, h, w) and the state (N, C, h, w)."""
        return self.out(self.shortcut(x) + state)

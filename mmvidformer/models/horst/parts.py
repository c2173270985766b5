"""Parts of a HORST layer besides its attention; equations are the paper's.

Letters: B batch, N maps of any steps and clips, C channels, h w size of the maps.
"""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FeedForward(nn.Sequential):
    """A 3 x 3 convolution without bias and a norm over channels and places, epsilon 1e-5.

    Args:
        in_channels: Channels of the input.
        channels: Channels of the output.
        act: Activation at the end; default: none.
        stride: Of the convolution.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        act: Callable[[], nn.Module] = nn.Identity,
        stride: int = 1,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.norm = nn.GroupNorm(1, channels)  # the paper's layer norm
        self.act = act()


class StateProjection(FeedForward):
    """Key or value of a state, ``norm(conv([part; ...]))``; paper eq. 10 and 11.

    A convolution of stacked maps is the sum of convolutions of the maps. Those of e and Q do not
    depend on the past and are done for all steps at once; that of h, when it is known.

    Args:
        parts: Which maps are stacked: ``'e'``, ``'h'``, ``'eh'`` or ``'qh'``.
        channels: C of each map and of the result.
    """

    def __init__(self, parts: str, channels: int) -> None:
        super().__init__(len(parts) * channels, channels)
        self.parts = parts

    def _convolve(self, part: str, x: Tensor) -> Tensor:
        kernel = self.conv.weight.chunk(len(self.parts), dim=1)[self.parts.index(part)]
        return F.conv2d(x, kernel, padding=1)

    def ahead(self, maps: Mapping[str, Tensor]) -> Tensor | None:
        """Convolve the part that does not depend on the past; None where there is none.

        Args:
            maps: ``'e'`` and ``'q'``, (N, C, h, w) each.
        """
        part = self.parts.removesuffix("h")
        return self._convolve(part, maps[part]) if part else None

    def forward(self, ahead: Tensor | None, h: Tensor) -> Tensor:
        """Finish the projection with the state h (B, C, h, w)."""
        if "h" in self.parts:
            late = self._convolve("h", h)
            ahead = late if ahead is None else ahead + late
        return self.norm(ahead)


class SqueezeExcite(nn.Module):
    """``u + u SE(u)``, SE being two layers on the mean over places; official code only.

    Args:
        channels: C; the hidden layer has a quarter.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(channels, channels // 4, kernel_size=1)
        self.fc2 = nn.Conv2d(channels // 4, channels, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, h, w) to the same."""
        pooled = x.mean((-2, -1), keepdim=True)
        return x + x * self.fc2(self.fc1(pooled).relu()).sigmoid()


class OfficialReadout(nn.Module):
    """The state is STATT; the output sees input and ``e + STATT`` side by side.

    Args:
        in_channels: Channels of x.
        channels: C.
        act: Activation.
    """

    def __init__(self, in_channels: int, channels: int, act: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.out = FeedForward(in_channels + channels, channels, act)
        self.excite = SqueezeExcite(channels)

    def state(self, e: Tensor, statt: Tensor) -> Tensor:
        """State h that enters the queue."""
        return statt

    def forward(self, x: Tensor, e: Tensor, state: Tensor) -> Tensor:
        """Output y from x (N, C_in, h, w), e and state (N, C, h, w)."""
        return self.excite(self.out(torch.cat([x, state + e], dim=1)))


class PaperReadout(nn.Module):
    """The state is ``act(FF_h(e + STATT))``, the output ``act(FF_y(x + h))``; eq. 8.

    The sum needs an x of C channels. Where it has others, a 1 x 1 convolution without bias makes
    C of them, of which the paper says nothing.

    Args:
        in_channels: Channels of x.
        channels: C.
        act: Activation.
    """

    def __init__(self, in_channels: int, channels: int, act: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.hidden = FeedForward(channels, channels, act)
        same = in_channels == channels
        self.shortcut = nn.Identity() if same else nn.Conv2d(in_channels, channels, 1, bias=False)
        self.out = FeedForward(channels, channels, act)

    def state(self, e: Tensor, statt: Tensor) -> Tensor:
        """State h that enters the queue."""
        return self.hidden(e + statt)

    def forward(self, x: Tensor, e: Tensor, state: Tensor) -> Tensor:
        """Output y from x (N, C_in, h, w) and the state (N, C, h, w)."""
        return self.out(self.shortcut(x) + state)

"""AdaTAD's adapter (Liu et al. 2024): a bottleneck with a convolution over time."""

import math
from typing import Any

from torch import Tensor, nn

from mmvidformer.layers.tokens import Grid


class Adapter(nn.Module):
    """Two linear layers around a convolution over time, added to the tokens; at first it adds zero.

    The convolution sees the frames of a clip. It is depthwise over three steps of a place, and then
    mixes channels. No class token passes it. A state dict without an adapter leaves this one.

    Args:
        dim: Token width D.
        ratio: Width of the bottleneck over D.
    """

    def __init__(self, dim: int, ratio: float) -> None:
        super().__init__()
        hidden = int(dim * ratio)
        self.down_proj = nn.Linear(dim, hidden)
        self.act = nn.GELU()
        self.dwconv = nn.Conv1d(hidden, hidden, kernel_size=3, padding=1, groups=hidden)
        self.conv = nn.Conv1d(hidden, hidden, kernel_size=1)
        self.up_proj = nn.Linear(hidden, dim)
        self.gamma = nn.Parameter(self.down_proj.weight.new_ones(1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights as the official code does."""
        nn.init.trunc_normal_(self.down_proj.weight, std=0.02)
        nn.init.normal_(self.dwconv.weight, std=math.sqrt(2 / 3))
        nn.init.normal_(self.conv.weight, std=math.sqrt(2 / self.conv.in_channels))
        nn.init.zeros_(self.up_proj.weight)
        for name, values in self.named_parameters():
            if name.endswith(".bias"):
                nn.init.zeros_(values)

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        """Return tokens in their shape.

        Args:
            tokens: Tokens (B, P + T H W, D), or those without a place alone, (B, P, D).
            grid: Their order.
        """
        hidden = self.act(self.down_proj(tokens))
        if hidden.shape[1] > grid.prefix:
            prefix, places = grid.split(hidden)
            rows = places.permute(0, 2, 3, 4, 1).flatten(0, 2)  # (B H W, channels, T)
            mixed = self.conv(self.dwconv(rows)).unflatten(0, (-1, grid.h, grid.w))
            hidden = grid.join(prefix, places + mixed.permute(0, 4, 1, 2, 3))
        return tokens + self.gamma * self.up_proj(hidden)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args: Any) -> None:
        if f"{prefix}gamma" not in state_dict:
            state_dict.update({prefix + name: x for name, x in self.state_dict().items()})
        super()._load_from_state_dict(state_dict, prefix, *args)

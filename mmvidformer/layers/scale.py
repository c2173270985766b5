import torch
from torch import Tensor, nn


class LayerScale(nn.Module):
    """Multiply the channels of an update by learned numbers (Touvron et al. 2021, CaiT).

    Args:
        dim: Token width D.
        value: Initial value of the numbers.
    """

    def __init__(self, dim: int, value: float) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), float(value)))

    def forward(self, x: Tensor) -> Tensor:
        """Scale (..., D)."""
        return x * self.gamma


def layer_scale(dim: int, value: float | None) -> nn.Module:
    """Build a ``LayerScale``, or the identity if the initial value is None."""
    return nn.Identity() if value is None else LayerScale(dim, value)

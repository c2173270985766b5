"""Non-negative maps of single queries and keys, which linear attention builds on."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.lookup import look_up


def _elu_plus_one(x: Tensor) -> Tensor:
    return F.elu(x) + 1


FEATURE_MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "elu": _elu_plus_one,
    "sigmoid": torch.sigmoid,
}


class FeatureMap(nn.Module):
    """Map queries and keys channel by channel; values pass.

    Args:
        name: ``'relu'``, ``'elu'`` (ELU + 1) or ``'sigmoid'``.
        offset: Added to each channel after the map.

    Raises:
        KeyError: If there is no map of that name.
    """

    per_token = True

    def __init__(self, name: str, offset: float = 0.0) -> None:
        super().__init__()
        self.name = look_up(tuple(FEATURE_MAPS), name, "feature map")
        self.offset = offset

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Map q and k (..., n, d)."""
        function = FEATURE_MAPS[self.name]
        return function(q) + self.offset, function(k) + self.offset, v

    def extra_repr(self) -> str:
        """Show the settings in the printed model."""
        return f"{self.name}, offset={self.offset:g}"

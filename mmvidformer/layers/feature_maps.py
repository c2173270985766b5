"""Non-negative feature maps of queries and keys, for linear attention."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.lookup import look_up

FEATURE_MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "elu": lambda x: F.elu(x) + 1,
    "sigmoid": torch.sigmoid,
}


class FeatureMap(nn.Module):
    """Map queries and keys elementwise; values pass unchanged.

    Args:
        name: ``'relu'``, ``'elu'`` (ELU + 1) or ``'sigmoid'``.
        offset: Number that is added after the map.

    Raises:
        KeyError: If there is no feature map of this name.
    """

    per_token = True

    def __init__(self, name: str, offset: float = 0.0) -> None:
        super().__init__()
        self.name = look_up(tuple(FEATURE_MAPS), name, "feature map")
        self.offset = offset

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Map queries and keys (..., n, d)."""
        function = FEATURE_MAPS[self.name]
        return function(q) + self.offset, function(k) + self.offset, v

    def extra_repr(self) -> str:
        """Show the settings in the printed model."""
        return f"{self.name}, offset={self.offset:g}"

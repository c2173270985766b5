import torch
import torch.nn.functional as F
from torch import Tensor, nn


class QueryValueBias(nn.Linear):
    """Projection to queries, keys and values with a bias of queries and values alone (BEiT).

    Args:
        dim: Token width D; the weight is (3 D, D), the bias (2 D,).
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim, 3 * dim)
        self.bias = nn.Parameter(torch.zeros(2 * dim))

    def full_bias(self) -> Tensor:
        """Return the bias (3 D,) with zeros for the keys."""
        query, value = self.bias.chunk(2)
        return torch.cat([query, torch.zeros_like(query), value])

    def with_full_bias(self) -> nn.Linear:
        """Return an ordinary layer that computes the same."""
        layer = nn.Linear(self.in_features, self.out_features, device="meta")
        layer.weight, layer.bias = self.weight, nn.Parameter(self.full_bias().detach())
        return layer

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., D) to (..., 3 D)."""
        return F.linear(input, self.weight, self.full_bias())

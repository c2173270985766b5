"""What the kernels of linear cost have in common: masks, dropout, precision."""

from abc import ABC, abstractmethod
from contextlib import nullcontext

import torch
from torch import Tensor, nn


class LinearCostKernel(nn.Module, ABC):
    """Attention whose time and memory grow with the tokens, not with their square.

    Sums over a sequence are long and a quotient of two of them is left, so that all of a
    kernel's ``attend`` runs in float32 (or float64, where that is what comes in), under autocast
    too; the output has the type of the values.

    A subclass says in ``feature_map`` what happens to each query and key on its own, before
    gates and groups (``layers.features``), and in ``attend`` the rest.

    Attributes:
        feature_map: That map, or None.
        takes_mask: Whether keys can be masked.
        needs_length: Whether it has weights along the sequence, and an argument ``length``.

    Args:
        head_dim: Width d of a head.
        dropout: Must be 0: there are no attention weights that could be dropped.

    Raises:
        ValueError: If ``dropout`` is not 0.
    """

    takes_mask = True
    needs_length = False

    def __init__(self, head_dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        if dropout:
            raise ValueError(
                f"{type(self).__name__} has no attention weights to drop: attention dropout must "
                f"be 0, got {dropout}"
            )
        self.head_dim = head_dim
        self.feature_map: nn.Module | None = None

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend.

        Args:
            q: Queries (..., n, S, d).
            k: Keys (..., n, S', d).
            v: Values (..., n, S', d).
            mask: True where a key is seen by all queries of its group; broadcasts to
                (..., n, 1, S').

        Returns:
            Output (..., n, S, d).

        Raises:
            ValueError: If the mask tells queries apart, or the kernel takes none.
        """
        if mask is not None and (mask.shape[-2] != 1 or not self.takes_mask):
            wanted = "a mask of keys (..., 1, S')" if self.takes_mask else "no mask"
            raise ValueError(
                f"{type(self).__name__} takes {wanted}, got one of shape {tuple(mask.shape)}"
            )
        with _without_autocast(v.device.type):
            q, k, wide = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k, v))
            return self.attend(q, k, wide, mask).to(v.dtype)

    @abstractmethod
    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Attend in the given precision; arguments and shapes as of ``forward``."""


def _without_autocast(device: str) -> torch.autocast | nullcontext:
    # The meta device, on which models are counted, knows no autocast.
    known = torch.amp.is_autocast_available(device)
    return torch.autocast(device, enabled=False) if known else nullcontext()


def hide(x: Tensor, mask: Tensor | None) -> Tensor:
    """Set the rows of x (..., n, S', d) to zero that a mask (..., 1, S') does not show."""
    return x if mask is None else x * mask.transpose(-1, -2)

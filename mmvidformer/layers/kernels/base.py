"""Base class of the kernels with linear cost: masks, dropout, precision."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.layers.masks import Causal, Mask


class LinearCostKernel(nn.Module, ABC):
    """Attention whose time and memory grow linearly with the number of tokens.

    Outputs are quotients of long sums, so ``attend`` runs in float32 (float64 for float64 inputs),
    under autocast too. The output has the type of the values.

    A subclass implements ``attend``. If it maps each query and key on its own first, it sets
    ``feature_map``, which ``Attention`` applies before gates and grouping.

    Attributes:
        feature_map: A module such as ``layers.kernels.linear.FeatureMap``, or None.
        masks: Kinds of masks that the kernel supports (``layers.masks.MASK_KINDS``).
        needs_own_keys: Whether the keys of a group must be its queries.
        needs_queries: Whether it needs several queries to learn how they attend.
        needs_length: Whether the kernel has weights along the sequence and takes their number as an
            argument ``length``.

    Args:
        head_dim: Width d of a head.
        dropout: Must be 0, because there are no attention weights to drop.
        **counts: Numbers of a kernel, such as ``rank``, which must be at least 1.

    Raises:
        ValueError: If ``dropout`` is not 0, or a number is below 1.
    """

    masks = frozenset({"keys", "padding"})
    needs_own_keys = False
    needs_queries = False
    needs_length = False

    def __init__(self, head_dim: int, dropout: float = 0.0, **counts: int) -> None:
        super().__init__()
        for name, count in counts.items():
            if count < 1:
                kernel = type(self).__name__
                raise ValueError(f"{name} of {kernel} must be at least 1, got {count}")
        if dropout:
            raise ValueError(
                f"{type(self).__name__} has no attention weights to drop: attention dropout must "
                f"be 0, got {dropout}"
            )
        self.head_dim = head_dim
        self.feature_map: nn.Module | None = None

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = None) -> Tensor:
        """Attend.

        Args:
            q: Queries (..., n, S, d).
            k: Keys (..., n, S', d).
            v: Values (..., n, S', d).
            mask: True for keys that all queries of the group attend to; broadcasts to
                (..., n, 1, S'). Some kernels take a ``Causal`` mask.

        Returns:
            Output (..., n, S, d).

        Raises:
            ValueError: If the kernel does not support the mask.
        """
        if isinstance(mask, Causal):
            fits = mask.kinds <= self.masks
        elif mask is not None:
            fits = mask.shape[-2] == 1 and bool({"keys", "padding"} & self.masks)
        if mask is not None and not fits:
            wanted = "a mask of keys (..., 1, S')" if self.masks else "no mask"
            got = mask if isinstance(mask, Causal) else f"one of shape {tuple(mask.shape)}"
            raise ValueError(f"{type(self).__name__} takes {wanted}, got {got}")
        with without_autocast(v.device):
            return self.attend(*full_precision(q, k, v), mask).to(v.dtype)

    @abstractmethod
    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
        """Attend in the precision of the inputs; arguments and shapes as in ``forward``."""


def without_autocast(device: torch.device) -> AbstractContextManager:
    """Disable autocast. The meta device, which is used to count operations, has none."""
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)


def full_precision(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Convert to float32, but for float64."""
    q, k, v = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k, v))
    return q, k, v


def zero_masked(x: Tensor, mask: Tensor | None) -> Tensor:
    """Zero the rows of x (..., n, S', d) for which the mask (..., 1, S') is False."""
    return x if mask is None else x * mask.transpose(-1, -2)

"""Base classes of kernels, and of those with linear cost: masks, dropout, precision."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.masks import Causal, Mask
from mmvidformer.layers.stream import Past


class Kernel(nn.Module, ABC):
    """How grouped queries, keys and values become an output.

    Built with ``head_dim``, ``dropout`` (the rate for attention weights) and its own options. What
    ``Attention`` and others may ask of a kernel are the attributes below, ``forward``, and for
    streams ``resume``.

    Attributes:
        supports: What it can do (``layers.abilities``). ``Attention`` refuses what asks for
            more.
        needs_length: Whether it has weights along the sequence and takes the number of keys as an
            argument ``length``.
        needs_heads: Whether its heads have weights of their own, and it takes ``num_heads``.
        over_time: Whether it runs along the frames from the first to the last, so that its pattern
            must be ``causal_time`` without ``past``.
        parts: Number of projections: 3, or 2 if keys and values are one.
        expand: Width of the heads together, over that of the tokens.
        feature_map: Module that maps queries, keys and values (..., n, d) of single tokens first
            (such as ``layers.kernels.linear.FeatureMap``), before gates and grouping, or None.
    """

    supports: ClassVar[frozenset[str]] = frozenset({"other_keys", "rotary"})
    needs_length: ClassVar[bool] = False
    needs_heads: ClassVar[bool] = False
    over_time: ClassVar[bool] = False
    parts: ClassVar[int] = 3
    expand: int = 1

    def __init__(self) -> None:
        super().__init__()
        self.feature_map: nn.Module | None = None

    @abstractmethod
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = None) -> Tensor:
        """Attend.

        Args:
            q: Queries (..., n, S, d).
            k: Keys (..., n, S', d).
            v: Values (..., n, S', d).
            mask: One that it supports: True for keys that a query attends to, broadcasts to
                (..., n, S, S'); or the number of equal keys that each key stands for, 0 for none,
                in floating point; or ``Causal``, with queries that are the last of the keys.

        Returns:
            Output (..., n, S, d).
        """

    def resume(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Causal, past: Past | None = None
    ) -> tuple[Tensor, Past]:
        """Attend in the next frames of a stream; S' is S.

        ``past`` is what was returned for the frames before, or None at the start. Returns the
        output (..., n, S, d), and what the next frames need.
        """
        raise UserError(f"{type(self).__name__} cannot run frame by frame")


class LinearCostKernel(Kernel):
    """Attention whose time and memory grow linearly with the number of tokens.

    Outputs are quotients of long sums, so ``attend`` runs in float32 (float64 for float64 inputs),
    under autocast too. The output has the type of the values. A subclass implements ``attend``, and
    its docstring lists the further arguments.

    Attributes:
        half_products: Whether ``attend`` takes bfloat16 inputs, too, and has sums in float32.

    Args:
        head_dim: Width d of a head.
        dropout: Must be 0, because there are no attention weights to drop.
        **counts: Numbers of a kernel, such as ``rank``, which must be at least 1.

    Raises:
        UserError: If ``dropout`` is not 0, or a number is below 1.
    """

    supports = frozenset({"other_keys", "keys", "padding", "rotary"})

    def __init__(self, head_dim: int, dropout: float = 0.0, **counts: int) -> None:
        super().__init__()
        for name, count in counts.items():
            if count < 1:
                kernel = type(self).__name__
                raise UserError(f"{name} of {kernel} must be at least 1, got {count}")
        if dropout:
            raise UserError(
                f"{type(self).__name__} has no attention weights to drop: attention dropout must "
                f"be 0, got {dropout}"
            )
        self.head_dim = head_dim
        self.half_products = False

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = None) -> Tensor:
        """Attend; see ``Kernel``. A mask of keys broadcasts to (..., n, 1, S').

        Raises:
            UserError: If the kernel does not support the mask.
        """
        if mask is not None:
            self._check(mask)
        dtype, in_half = v.dtype, self.half_products and not isinstance(mask, Causal)
        if not (q.dtype == k.dtype == dtype == torch.float32):
            if not in_half or not _multiplies_halves(q, k, v):
                q, k, v = full_precision(q, k, v)
        with without_autocast(v.device):
            return self.attend(q, k, v, mask).to(dtype)

    def _check(self, mask: Any) -> None:
        """Raise a UserError if the kernel does not support a mask."""
        takes_keys = bool({"keys", "padding"} & self.supports)
        got = mask
        if isinstance(mask, Causal):
            fits = mask.kinds <= self.supports
        else:
            known = mask.dtype == torch.bool or "counts" in self.supports
            fits = mask.shape[-2] == 1 and takes_keys and known
            got = f"one of shape {tuple(mask.shape)} and {mask.dtype}"
        if not fits:
            wanted = "a mask of keys (..., 1, S')" if takes_keys else "no mask"
            raise UserError(f"{type(self).__name__} takes {wanted}, got {got}")

    @abstractmethod
    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
        """Attend in the precision of the inputs; arguments and shapes as in ``forward``."""


def _multiplies_halves(*inputs: Tensor) -> bool:
    """Return whether the device has products of bfloat16, the type of all inputs."""
    if any(x.dtype != torch.bfloat16 for x in inputs):
        return False
    return inputs[0].device.type != "cpu" or torch.ops.mkldnn._is_mkldnn_bf16_supported()


def without_autocast(device: torch.device) -> AbstractContextManager:
    """Disable autocast, if it is on. The meta device, on which operations are counted, has none."""
    is_on = device.type != "meta" and torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if is_on else nullcontext()


def full_precision(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Upcast to float32; keep float64."""
    q, k, v = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k, v))
    return q, k, v


def zero_masked(x: Tensor, mask: Tensor | None) -> Tensor:
    """Zero the rows of x (..., n, S', d) for which the mask (..., 1, S') is False.

    Those of keys that count several times are multiplied by the number.
    """
    return x if mask is None else (x * mask.transpose(-1, -2)).to(x.dtype)

"""A gated linear recurrence over time, whose state has a constant size."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.kernels.base import LinearCostKernel, full_precision, without_autocast
from mmvidformer.layers.masks import Causal
from mmvidformer.layers.stream import Past

SHARPNESS = 8.0  # of the decay, the constant c of the papers
STEEPEST = 1000.0  # largest derivative of a square root


class RecurrentState(NamedTuple):
    """Last inputs of the convolution (..., n, width - 1, d), and h (..., n, 1, d)."""

    key: Tensor
    value: Tensor
    hidden: Tensor


class GatedRecurrenceKernel(LinearCostKernel):
    """Real-gated linear recurrent unit, RG-LRU (De et al. 2024, Griffin; TRecViT).

    With x the values after a causal convolution over ``width`` steps, and sigmoid gates of the keys
    after it, i (of the input) and r (of the recurrence), a step of a head is::

        a_t = exp(-8 r_t softplus(s))
        h_t = a_t h_{t-1} + sqrt(1 - a_t^2) i_t x_t      (the root is 1 in the first step)
        y_t = gelu(q_t) h_t

    Keys and values are one projection, and the heads are ``expand`` times as wide as those of other
    kernels, so the attention has ``2 expand D^2`` instead of ``3 D^2`` weights before it.

    The sequence is that of a causal pattern over time. A step of a stream takes the last inputs of
    the convolution and h, whatever came before.

    Args:
        head_dim: Width d of a head, before it is expanded.
        dropout: Must be 0.
        num_heads: Number n of heads, each with a block of the gates' weights.
        expand: Width of the recurrence over that of the tokens. Griffin has 4/3, TRecViT 2.
        width: Steps that the convolution sees.
        min_decay: Smallest initial value of ``exp(-softplus(s))``; the largest is 0.999.
    """

    supports = frozenset({"causal"})
    parts = 2
    needs_heads = True
    over_time = True

    def __init__(
        self,
        head_dim: int,
        dropout: float = 0.0,
        num_heads: int = 1,
        expand: int = 1,
        width: int = 4,
        min_decay: float = 0.9,
    ) -> None:
        super().__init__(head_dim, dropout, num_heads=num_heads, expand=expand, width=width)
        if not 0 < min_decay < 0.999:
            raise UserError(f"min_decay must be above 0 and below 0.999, got {min_decay}")
        self.expand, self.width, dim = expand, width, expand * head_dim
        squares = torch.empty(num_heads, dim).uniform_(min_decay**2, 0.999**2)
        self.decay = nn.Parameter((-squares.log() / 2).expm1().log())  # inverse of softplus
        self.conv_weight = nn.Parameter(torch.empty(width, num_heads, dim))
        self.conv_bias = nn.Parameter(torch.zeros(num_heads, dim))
        self.input_weight = nn.Parameter(torch.empty(num_heads, dim, dim))
        self.input_bias = nn.Parameter(torch.zeros(num_heads, dim))
        self.decay_weight = nn.Parameter(torch.empty(num_heads, dim, dim))
        self.decay_bias = nn.Parameter(torch.zeros(num_heads, dim))
        nn.init.normal_(self.conv_weight, std=0.1 * width**-0.5)
        for weight in (self.input_weight, self.decay_weight):
            nn.init.normal_(weight, std=dim**-0.5)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Any = None) -> Tensor:
        """Attend; see ``forward``."""
        return self._run(q, k, v)[0]

    def resume(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Causal, past: Past | None = None
    ) -> tuple[Tensor, Past]:
        """Attend in the next frames; the past has the last keys and values, and h."""
        with without_autocast(v.device):
            out, past = self._run(*full_precision(q, k, v), mask.before, past)
        return out.to(v.dtype), past

    def _run(
        self, q: Tensor, k: Tensor, v: Tensor, before: Tensor | int = 0, past: Past | None = None
    ) -> tuple[Tensor, Past]:
        """Return the output (..., n, S, d) and the new past, after some frames of a stream."""
        if past is None:
            keys, values = (F.pad(x, (0, 0, self.width - 1, 0)) for x in (k, v))
        else:
            keys, values = (torch.cat(pair, dim=-2) for pair in zip(past[:2], (k, v), strict=True))
        k, v = self._convolve(keys, k.shape[-2]), self._convolve(values, v.shape[-2])
        opened = (k @ self.input_weight.to(k) + self.input_bias.to(k)[:, None]).sigmoid()
        gate = (k @ self.decay_weight.to(k) + self.decay_bias.to(k)[:, None]).sigmoid()
        log_decay = -SHARPNESS * gate * F.softplus(self.decay.to(k))[:, None]
        scale = bounded_sqrt(-(2 * log_decay).expm1())
        # Of the first step, all is new.
        is_first = torch.arange(scale.shape[-2], device=scale.device)[:, None] + before == 0
        scale = scale.masked_fill(is_first, 1.0)
        inputs, decay = opened * v * scale, log_decay.exp()
        hidden = None if past is None else past[2][..., 0, :]
        steps = []
        for x, a in zip(inputs.unbind(-2), decay.unbind(-2), strict=True):
            hidden = x if hidden is None else a * hidden + x
            steps.append(hidden)
        out = F.gelu(q, approximate="tanh") * torch.stack(steps, dim=-2)
        first = keys.shape[-2] - (self.width - 1)
        return out, RecurrentState(
            keys[..., first:, :], values[..., first:, :], steps[-1][..., None, :]
        )

    def _convolve(self, x: Tensor, length: int) -> Tensor:
        """Convolve (..., n, width - 1 + S, d) to (..., n, S, d)."""
        out = self.conv_bias.to(x)[:, None]
        for start, weight in enumerate(self.conv_weight.to(x)):
            out = out + x[..., start : start + length, :] * weight[:, None]
        return out


def bounded_sqrt(x: Tensor) -> Tensor:
    """Return the square root of x >= 0, with a derivative of at most ``STEEPEST``."""
    slope = 0.5 * x.detach().clamp_min(1 / (4 * STEEPEST**2)).rsqrt()
    return x.detach().sqrt() + slope * (x - x.detach())

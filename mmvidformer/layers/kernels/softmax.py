from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.layers.eager import runs_eagerly
from mmvidformer.layers.kernels.base import Kernel
from mmvidformer.layers.masks import Causal, Mask
from mmvidformer.layers.stream import Past


class KeysAndValues(NamedTuple):
    """Keys and values (..., n, S', d) of the frames that the next one may see."""

    key: Tensor
    value: Tensor


class SoftmaxKernel(Kernel):
    """Scaled dot-product attention, ``softmax(q k^T / sqrt(d)) v``, with the fused operator.

    Vaswani et al. 2017, eq. 1.

    Args:
        head_dim: Width d of a head.
        dropout: Dropout rate of the attention weights in training.
    """

    supports = frozenset(
        ("some_queries", "other_keys", "keys", "padding", "pairs", "causal", "past", "counts")
    ) | {"rotary", "any_order", "sink"}

    def __init__(self, head_dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.scale = head_dim**-0.5
        self.dropout = nn.Dropout(dropout).p  # checked

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = None) -> Tensor:
        """Attend; see ``Kernel``. A bounded past costs in proportion to it."""
        if isinstance(mask, Causal):
            return self._attend_causal(q, k, v, mask)
        if mask is not None and mask.is_floating_point():  # n equal keys weigh n times one
            mask = mask.to(torch.promote_types(q.dtype, torch.float32)).log().to(q.dtype)
        dropout = self.dropout if self.training else 0.0
        clips = q.shape[0]
        if shared := mask is not None and mask.dim() == q.dim() - 1 == 4:
            # Of (B, G, n, S, d) to (G, B*n, S, d): the fused operator takes four axes.
            q, k, v = (x.transpose(0, 1).flatten(1, 2) for x in (q, k, v))
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, scale=self.scale
        )
        return out.unflatten(1, (clips, -1)).transpose(0, 1) if shared else out

    def resume(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Causal, past: Past | None = None
    ) -> tuple[Tensor, Past]:
        """Attend in the next frames; the past has the keys and values that they may see.

        A bounded past has the size of its bound from the start; what was before the start of the
        stream is hidden. One without a bound grows.
        """
        if mask.past is None:
            if past is not None:
                k, v = torch.cat([past[0], k], dim=-2), torch.cat([past[1], v], dim=-2)
            return self(q, k, v, mask), KeysAndValues(k, v)
        size = (mask.past - 1) * mask.step
        if past is None:
            no_keys, no_values = (x.new_zeros(*x.shape[:-2], size, x.shape[-1]) for x in (k, v))
            past = KeysAndValues(no_keys, no_values)
        new = q.shape[-2]
        k, v = torch.cat([past[0], k], dim=-2), torch.cat([past[1], v], dim=-2)
        # Keys before the start of the stream.
        hidden = torch.as_tensor(size - mask.before * mask.step)
        first, is_alike = 0, False
        if k.device.type == "cpu" and runs_eagerly():  # their number is known at once
            first, most = max(int(hidden.min()), 0), max(int(hidden.max()), 0)
            is_alike = first == most
        is_there = None
        if not is_alike:
            is_there = torch.arange(first, size + new, device=k.device)[None] >= hidden
        out = self._attend_causal(q, k[..., first:, :], v[..., first:, :], mask, is_there)
        return out, KeysAndValues(k[..., new:, :], v[..., new:, :])

    def _attend_causal(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Causal, is_there: Tensor | None = None
    ) -> Tensor:
        """Attend to the frames that ``mask`` shows, of keys that are there; None: all.

        They are (1, S'), or, of streams of different lengths, (B, 1, 1, S').
        """
        outs = []
        for rows, seen in mask.blocks(q.shape[-2], k.shape[-2]):
            queries, keys, values = q[..., rows, :], k[..., seen, :], v[..., seen, :]
            alike = mask.step == 1 and is_there is None
            if alike and queries.shape[-2] == keys.shape[-2] > 1:
                out = self._attend_to_earlier(queries, keys, values)
            else:
                pairs = mask.pairs(queries.shape[-2], keys.shape[-2], q.device)
                if is_there is not None:
                    keys_there = is_there[..., seen]
                    pairs = keys_there if pairs is None else pairs & keys_there
                out = self.forward(queries, keys, values, pairs)
            outs.append(out)
        return outs[0] if len(outs) == 1 else torch.cat(outs, dim=-2)

    def _attend_to_earlier(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend to the keys up to the place of each query, with as many keys as queries."""
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, is_causal=True, scale=self.scale
        )

"""Copies of the class tokens in the groups of a pattern."""

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.layers.patterns import Pattern, grid_size

QKV = tuple[Tensor, ...]  # queries, keys and values; kv has the last two alone


def with_cls(
    pattern: Pattern, kv: QKV, cls_qkv: QKV
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Let a copy of the class tokens join each group, in front of the keys and values.

    Returns queries of the copies (B*G, n, C, d), keys and values (B*G, n, C + S', d), and the mask.
    """
    groups, mask = pattern.num_groups(grid_size(kv[0])), pattern.mask(kv[0])
    count = cls_qkv[0].shape[1]
    mask = F.pad(mask, (count, 0), value=True) if isinstance(mask, Tensor) else None  # not Causal
    q_cls, k_cls, v_cls = (x.transpose(1, 2).repeat_interleave(groups, dim=0) for x in cls_qkv)
    keys, values = (
        torch.cat([x_cls, pattern.keys(x)], dim=2)
        for x_cls, x in zip((k_cls, v_cls), kv, strict=True)
    )
    return q_cls, keys, values, mask


def by_group(copies: Tensor, pattern: Pattern, grid: Tensor) -> Tensor:
    """Order copies of the class tokens (B*G, n, C, d) by clip and group, (B, G, C, n*d)."""
    groups = (grid.shape[0], pattern.num_groups(grid_size(grid)))
    return copies.transpose(1, 2).flatten(2).unflatten(0, groups)

"""The one attention module: project, prepare, regroup, apply a kernel, ungroup, project.

Linear layers work token by token, so that projecting before the regrouping gives the same
numbers as after it, without a copy of the input, and the class token is projected once however
many groups see it. For the same reason shifts, the kernel's feature map and gates come while the
tokens are still a grid.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.layers.fixation import Fixation
from mmvidformer.layers.kernels import build_kernel
from mmvidformer.layers.patterns import PATTERNS, Grid, Pattern, get_pattern
from mmvidformer.layers.shift import build_shift

ClsPolicy = Literal["mean", "see", "skip"]


class Attention(nn.Module):
    """Multi-head attention on a grid of tokens.

    Args:
        dim: Token width D.
        num_heads: Heads; must divide ``dim``.
        patterns: Names of the patterns (``layers.patterns``). Several share the heads equally, the
            first heads go to the first pattern (ViViT model 4, section 3.4).
        cls: What the class token does, where there is one. ``'mean'``: a copy joins each group
            and the updates of the copies are averaged (for the joint pattern, which has a single
            group, that is ordinary attention). ``'see'``: its key is in each group and it
            attends to all tokens itself, for patterns whose keys are not their queries.
            ``'skip'``: it is in no group and not updated.
        kernel: Name of the kernel (``layers.kernels``), or a dictionary of ``type`` and options.
        fixation: Gates on queries and keys (``layers.fixation``): the name of a scheme, or a
            dictionary of ``scheme`` and ``combine``; None: no gates.
        shifts: Shifts of keys and values along the grid (``layers.shift``), names or dictionaries
            of ``type`` and options, in the order in which they apply. The class token is not
            shifted.
        shift_last: Shift after the gates instead of before.
        qkv_bias: Bias in the query, key and value projections.
        attn_drop: Dropout on attention weights.
        proj_drop: Dropout on the output.

    Raises:
        ValueError: If ``num_heads`` does not divide ``dim``, or the number of patterns does not
            divide ``num_heads``.
        KeyError: If a pattern, the kernel, the fixation or a shift is unknown.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        patterns: Sequence[str] = ("joint",),
        cls: ClsPolicy = "mean",
        kernel: str | Mapping = "softmax",
        fixation: str | Mapping | None = None,
        shifts: Sequence[str | Mapping] = (),
        shift_last: bool = False,
        qkv_bias: bool = True,
        attn_drop: float = 0.0,
        proj_drop: float = 0.0,
    ) -> None:
        super().__init__()
        if dim % num_heads:
            raise ValueError(f"dim ({dim}) must be a multiple of num_heads ({num_heads})")
        if not patterns or num_heads % len(patterns):
            raise ValueError(
                f"num_heads ({num_heads}) must be a multiple of the number of patterns, "
                f"{len(patterns)} {list(patterns)}"
            )
        if cls not in get_args(ClsPolicy):
            raise ValueError(f"cls must be one of {get_args(ClsPolicy)}, got {cls!r}")
        self.num_heads = num_heads
        self.patterns: tuple[Pattern, ...] = tuple(get_pattern(name) for name in patterns)
        self.cls = cls
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        head_dim = dim // num_heads
        self.kernel = build_kernel(kernel, head_dim=head_dim, dropout=attn_drop)
        moves: dict[str, nn.Module]
        moves = {f"shift{i}": build_shift(shift, dim) for i, shift in enumerate(shifts)}
        gates: dict[str, nn.Module]
        features = self.kernel.feature_map
        gates = {"features": features} if isinstance(features, nn.Module) else {}
        gates |= {"fixation": Fixation.build(fixation, head_dim)} if fixation else {}
        self.prepare = nn.ModuleDict({**gates, **moves} if shift_last else {**moves, **gates})
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def num_groups(self, grid: Grid) -> int:
        """Groups of one grid, or 1 where several patterns share the heads."""
        return self.patterns[0].num_groups(grid) if len(self.patterns) == 1 else 1

    def forward(
        self,
        grid: Tensor,
        cls: Tensor | None = None,
        keep: Tensor | None = None,
        cls_only: bool = False,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Attend.

        Args:
            grid: Tokens (B, T, H, W, D).
            cls: Class token (B, 1, D), or None.
            keep: Stochastic-depth factors of each group, (B, G) or (B, 1) (``layers.drop``).
            cls_only: Leave the grid's update out, and what is needed for it alone. Only for
                kernels whose queries do not touch each other (softmax, linear).

        Returns:
            The updates of grid and class token, in their shapes; None in place of the former
            with ``cls_only``, of the latter where there is no class token or it is skipped.
        """
        if cls_only:
            seen = cls is not None and self.cls != "skip"
            return None, self._merge_copies(self._mix_cls(grid, cls), keep) if seen else None
        out, copies = self.mix(*self.project(grid, cls))
        out = self.proj_drop(self.proj(out))
        if keep is not None:
            out = out * self.patterns[0].spread(keep, tuple(grid.shape[1:4]))
        return out, None if copies is None else self._merge_copies(copies, keep)

    def project(self, grid: Tensor, cls: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Queries, keys and values of all heads, shifted, mapped and gated.

        Args:
            grid: Tokens (B, T, H, W, D).
            cls: Class token (B, 1, D), or None.

        Returns:
            Those of the grid (B, T, H, W, 3, n, d) and of the class token (B, 1, 3, n, d), None
            where there is none or it is skipped.
        """
        stages = list(self.prepare.values())
        qkv = _pass_through(stages, self._heads(self.qkv(grid)))
        if cls is None or self.cls == "skip":
            return qkv, None
        alone = [stage for stage in stages if stage.per_token]
        return qkv, _pass_through(alone, self._heads(self.qkv(cls)))

    def mix(self, qkv: Tensor, cls_qkv: Tensor | None) -> tuple[Tensor, list[Tensor] | None]:
        """Let tokens exchange their values; linear in them, for given queries and keys.

        Args:
            qkv: Of the grid, from ``project``.
            cls_qkv: Of the class token, from ``project``.

        Returns:
            Grid (B, T, H, W, D), and for each pattern the copies of the class token (B, G, D /
            patterns) or None.
        """
        size: Grid = tuple(qkv.shape[1:4])
        outs, copies = [], []
        for pattern, part in self._heads_of_patterns():
            out, cls_out = self._attend(
                pattern, qkv[..., part, :], None if cls_qkv is None else cls_qkv[..., part, :]
            )
            outs.append(pattern.ungroup(out, size).flatten(4))
            copies.append(cls_out)
        out = outs[0] if len(outs) == 1 else torch.cat(outs, dim=-1)
        return out, None if cls_qkv is None else copies

    def _mix_cls(self, grid: Tensor, cls: Tensor) -> list[Tensor]:
        """The copies of the class token as of ``mix``, without queries of the grid."""
        if self.prepare:
            qkv, cls_qkv = self.project(grid, cls)
            k, v = qkv.unbind(4)[1:]
        else:
            dim, bias = grid.shape[-1], self.qkv.bias
            kv = F.linear(grid, self.qkv.weight[dim:], None if bias is None else bias[dim:])
            k, v = kv.unflatten(-1, (2, self.num_heads, -1)).unbind(4)
            cls_qkv = self._heads(self.qkv(cls))
        return [
            self._attend_cls(pattern, k[..., part, :], v[..., part, :], cls_qkv[..., part, :])
            for pattern, part in self._heads_of_patterns()
        ]

    def _heads_of_patterns(self) -> Iterator[tuple[Pattern, slice]]:
        heads = self.num_heads // len(self.patterns)
        for i, pattern in enumerate(self.patterns):
            yield pattern, slice(i * heads, (i + 1) * heads)

    def _heads(self, qkv: Tensor) -> Tensor:
        return qkv.unflatten(-1, (3, self.num_heads, -1))

    def _attend(
        self, pattern: Pattern, qkv: Tensor, cls_qkv: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Attend under one pattern; qkv (B, T, H, W, 3, n, d), class token (B, 1, 3, n, d)."""
        q, k, v = qkv.unbind(4)
        batch, size = q.shape[0], tuple(q.shape[1:4])
        queries, keys, values = pattern.group(q), pattern.keys(k), pattern.keys(v)  # (B*G, n, S, d)
        groups = pattern.num_groups(size)
        mask = pattern.mask(size, q.device)
        if cls_qkv is None:
            return self.kernel(queries, keys, values, *_spread_mask(mask, batch)), None

        tokens = cls_qkv.permute(2, 0, 3, 1, 4)  # (3, B, n, 1, d)
        q_cls, k_cls, v_cls = (token.repeat_interleave(groups, dim=0) for token in tokens)
        keys, values = torch.cat([k_cls, keys], dim=2), torch.cat([v_cls, values], dim=2)
        if self.cls == "see":
            mask = None if mask is None else F.pad(mask, (1, 0), value=True)
            out = self.kernel(queries, keys, values, *_spread_mask(mask, batch))
            return out, self._attend_cls(pattern, k, v, cls_qkv)
        out = self.kernel(torch.cat([q_cls, queries], dim=2), keys, values)
        cls_out = out[:, :, 0].unflatten(0, (batch, groups)).flatten(2)  # (B, G, n*d)
        return out[:, :, 1:], cls_out

    def _attend_cls(self, pattern: Pattern, k: Tensor, v: Tensor, cls_qkv: Tensor) -> Tensor:
        """Let the class token alone attend; k, v (B, T, H, W, n, d), gives (B, G, n*d)."""
        pattern = PATTERNS["joint"] if self.cls == "see" else pattern
        batch, groups = k.shape[0], pattern.num_groups(tuple(k.shape[1:4]))
        tokens = cls_qkv.permute(2, 0, 3, 1, 4)  # (3, B, n, 1, d)
        q_cls, k_cls, v_cls = (token.repeat_interleave(groups, dim=0) for token in tokens)
        keys = torch.cat([k_cls, pattern.keys(k)], dim=2)
        values = torch.cat([v_cls, pattern.keys(v)], dim=2)
        out = self.kernel(q_cls, keys, values)  # (B*G, n, 1, d)
        return out.flatten(1).unflatten(0, (batch, groups))

    def _merge_copies(self, copies: list[Tensor], keep: Tensor | None) -> Tensor:
        if keep is not None and keep.shape[1] > 1:  # a single pattern, a factor for each copy
            out = self.proj_drop(self.proj(copies[0])) * keep[..., None]
            return out.mean(dim=1, keepdim=True)
        # Averaging commutes with the projection: one token is projected instead of G copies.
        out = torch.cat([copy.mean(dim=1, keepdim=True) for copy in copies], dim=-1)
        out = self.proj_drop(self.proj(out))
        return out if keep is None else out * keep[..., None]


def _pass_through(stages: list[nn.Module], qkv: Tensor) -> Tensor:
    """Send queries, keys and values (..., 3, n, d) through stages that take and give all three."""
    if not stages:
        return qkv
    tokens = qkv.unbind(-3)
    for stage in stages:
        tokens = stage(*tokens)
    return torch.stack(tokens, dim=-3)


def _spread_mask(mask: Tensor | None, batch: int) -> tuple[Tensor, ...]:
    """Repeat a mask (G, S') for the batch as (B*G, 1, 1, S'); nothing for None."""
    return () if mask is None else (mask.repeat(batch, 1)[:, None, None],)

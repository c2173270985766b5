"""Multi-head attention on a grid of tokens.

Queries, keys and values are projected, shifted, mapped and gated on the grid and regrouped
afterwards, so each token is projected once, however many groups it is in. The letters of shapes are
told in ``layers.patterns``.
"""

from collections.abc import Mapping, Sequence
from typing import get_args

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvidformer.layers.checks import check
from mmvidformer.layers.class_tokens import QKV, by_group, with_cls
from mmvidformer.layers.config import ClsPolicy
from mmvidformer.layers.fixation import Fixation
from mmvidformer.layers.kernels import KERNELS
from mmvidformer.layers.kernels.base import LinearCostKernel
from mmvidformer.layers.linear import QueryValueBias
from mmvidformer.layers.masks import Causal
from mmvidformer.layers.norm import QueryKeyNorm
from mmvidformer.layers.patterns import PATTERNS, Pattern, grid_size
from mmvidformer.layers.rotary import ROPES, RotaryEmbedding
from mmvidformer.layers.shift import Shift, build_shift
from mmvidformer.layers.stream import StreamState

# Parts of the heads whose keys are gathered together. Large parts leave no holes in the memory.
PARTS = 4


class Attention(nn.Module):
    """Multi-head attention on a grid of tokens.

    Args:
        dim: Token width D.
        num_heads: Number of attention heads; must divide ``dim``.
        patterns: Attention patterns. Several share the heads equally, and the first heads go to the
            first pattern (ViViT model 4, section 3.3).
        cls: Role of the class tokens (the class token, and registers after it), if there are any.
            ``'mean'``: a copy joins each group, and the updates of the copies are averaged. With a
            single group, as in the joint pattern, this is ordinary attention. ``'global'``: its key
            is visible in each group, and it attends to all tokens itself. ``'skip'``: it joins no
            group and is not updated. Causal patterns need ``'skip'``, which is also right for a
            model without a class token.
        kernel: Attention kernel; as in ``SubLayer``, like the next three.
        fixation: Gates on queries and keys.
        shifts: Shifts of keys and values. The class token is not shifted.
        shift_last: Whether shifts come after the feature map and the gates.
        attn_drop: Dropout rate of the attention weights.
        proj_drop: Dropout rate of the output.
        qkv_bias: As in ``EncoderConfig``, like the next two.
        qk_norm: Norm of queries and keys, before all else.
        rope: Rotary positions, after all else.

    Attributes:
        recompute: Whether to recompute attention of linear cost in the backward pass. ``with_cp``
            of ``Encoder`` sets it.

    Raises:
        ValueError: If ``num_heads`` does not divide ``dim``, if the number of patterns does not
            divide ``num_heads``, if ``cls`` is unknown, or if parts do not go together.
        KeyError: If a pattern, the kernel, the fixation or a shift is unknown.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        patterns: Sequence[str | Mapping] = ("joint",),
        cls: ClsPolicy = "mean",
        kernel: str | Mapping = "softmax",
        fixation: str | Mapping | None = None,
        shifts: Sequence[str | Mapping] = (),
        shift_last: bool = False,
        attn_drop: float = 0.0,
        proj_drop: float = 0.0,
        qkv_bias: bool | str = True,
        qk_norm: str | Mapping | None = None,
        rope: str | Mapping | None = None,
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
        self.patterns: tuple[Pattern, ...] = tuple(PATTERNS.build(row) for row in patterns)
        self.cls = cls
        if qkv_bias not in (True, False, "qv"):
            raise ValueError(f"qkv_bias must be True, False or 'qv', got {qkv_bias!r}")
        own = qkv_bias == "qv"
        self.qkv = QueryValueBias(dim) if own else nn.Linear(dim, 3 * dim, bias=bool(qkv_bias))
        head_dim = dim // num_heads
        self.kernel = KERNELS.build(kernel, head_dim=head_dim, dropout=attn_drop)
        self.recompute = False
        check(patterns, self.kernel, cls, shifts, rope)
        moves = {f"shift{i}": build_shift(shift, dim) for i, shift in enumerate(shifts)}
        features = self.kernel.feature_map
        gates: dict[str, nn.Module] = {} if features is None else {"features": features}
        if fixation:
            options = {"type": fixation} if isinstance(fixation, str) else dict(fixation)
            kind = options.pop("type", "qkv_shared")
            gates["fixation"] = Fixation(dim, num_heads, kind, **options)
        stages = {**gates, **moves} if shift_last else {**moves, **gates}
        if qk_norm is not None:
            stages = {"qk_norm": QueryKeyNorm(head_dim, qk_norm), **stages}
        if rope is not None:
            stages["rope"] = ROPES.build(rope, head_dim=head_dim)
        self.prepare = nn.ModuleDict(stages)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(
        self,
        grid: Tensor,
        cls: Tensor | None = None,
        keep: Tensor | None = None,
        cls_only: bool = False,
        state: StreamState | None = None,
        rope: Tensor | None = None,
        cls_keep: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Attend.

        Args:
            grid: Tokens (B, T, H, W, D).
            cls: Class tokens (B, C, D), or None.
            keep: Stochastic-depth factors, (B, G) or (B, 1) (``layers.drop``).
            cls_only: Whether to compute only the update of the class token. This needs a kernel
                with ``separate_queries``.
            state: State of a stream that the grid is a part of.
            rope: Table of rotary positions (``RotaryEmbedding.table``). Default: that of the grid
                as a whole clip.
            cls_keep: Stochastic-depth factors of the class tokens, (B, 1), if they attend alone
                (``cls='global'``). Default: ``keep``, as for copies in the groups.

        Returns:
            Updates of the grid and the class tokens, in their shapes. The former is None with
            ``cls_only``, the latter if there is no class token or it is skipped.
        """
        cls = None if self.cls == "skip" else cls
        cls_keep = keep if cls_keep is None else cls_keep
        if cls_only:
            if cls is None:
                return None, None
            kv = _split(self._prepare(self.qkv(grid), rope)[1:], len(self.patterns))
            cls_qkv = _split(self._prepare(self.qkv(cls)), len(self.patterns))
            parts = zip(self.patterns, kv, cls_qkv, strict=True)
            return None, self._merge_copies([self._attend_cls(*part) for part in parts], cls_keep)
        linear = isinstance(self.kernel, LinearCostKernel)
        if linear and self.recompute and state is None and _can_recompute():
            inputs = self.qkv(grid), None if cls is None else self.qkv(cls)
            out, copies = checkpoint(self._mix_raw, *inputs, rope, use_reentrant=False)
        else:
            out, copies = self.mix(*self.project(grid, cls, rope), state)
        out = self.proj_drop(self.proj(out))
        if keep is not None:
            out = out * self.patterns[0].spread(keep, grid_size(grid))
        return out, None if copies is None else self._merge_copies(copies, cls_keep)

    def project(
        self, grid: Tensor, cls: Tensor | None = None, rope: Tensor | None = None
    ) -> tuple[QKV, QKV | None]:
        """Project to queries, keys and values of all heads, and shift, map, gate and turn them.

        Args are those of ``forward``. Returns those of the grid, (B, T, H, W, n, d) each, and of
        the class tokens, (B, C, n, d) each, or None if there is no class token or it is skipped.
        """
        cls = None if self.cls == "skip" else cls
        qkv = self._prepare(self.qkv(grid), rope)
        return qkv, None if cls is None else self._prepare(self.qkv(cls))

    def mix(
        self, qkv: QKV, cls_qkv: QKV | None, state: StreamState | None = None
    ) -> tuple[Tensor, list[Tensor] | None]:
        """Exchange values between tokens; linear in the values for given queries and keys.

        Args:
            qkv: Queries, keys and values of the grid, as ``project`` returns them.
            cls_qkv: Queries, keys and values of the class tokens, or None.
            state: State of a stream that the grid is a part of.

        Returns:
            Grid (B, T, H, W, D), and the copies of the class tokens for each pattern,
            (B, G, C, D / patterns), or None.
        """
        size, count, outs, copies = grid_size(qkv[0]), len(self.patterns), [], []
        cls_parts = _split(cls_qkv, count) if cls_qkv else [None] * count
        for pattern, part, cls_part in zip(
            self.patterns, _split(qkv, count), cls_parts, strict=True
        ):
            if pattern.gathers and _can_recompute():
                out, cls_out = self._attend_in_parts(pattern, part, cls_part)
            else:
                out, cls_out = self._attend(pattern, part, cls_part, state)
            outs.append(pattern.ungroup(out, size).flatten(4))
            if cls_out is not None:
                copies.append(cls_out)
        return outs[0] if len(outs) == 1 else torch.cat(outs, dim=-1), copies or None

    def _mix_raw(
        self, qkv: Tensor, cls: Tensor | None, rope: Tensor | None
    ) -> tuple[Tensor, list[Tensor] | None]:
        cls_qkv = None if cls is None else self._prepare(cls)
        return self.mix(self._prepare(qkv, rope), cls_qkv)

    def _prepare(self, projected: Tensor, rope: Tensor | None = None) -> QKV:
        is_grid = projected.dim() == 5  # a class token has no place and no neighbors
        qkv = projected.unflatten(-1, (3, self.num_heads, -1)).unbind(-3)
        del projected  # freed as soon as no stage needs its parts
        for stage in self.prepare.values():
            if isinstance(stage, RotaryEmbedding):
                qkv = stage(*qkv, rope) if is_grid else qkv
            elif is_grid or not isinstance(stage, Shift):
                qkv = stage(*qkv)
        return qkv

    def _attend_in_parts(
        self, pattern: Pattern, qkv: QKV, cls_qkv: QKV | None
    ) -> tuple[Tensor, Tensor | None]:
        """``_attend`` for some heads at a time; the backward pass gathers their keys again."""
        parts = _split(qkv, PARTS)
        cls_parts = _split(cls_qkv, PARTS) if cls_qkv else [None] * len(parts)
        found = [
            checkpoint(self._attend, pattern, *pair, use_reentrant=False)
            for pair in zip(parts, cls_parts, strict=True)
        ]
        outs, copies = zip(*found, strict=True)
        return torch.cat(outs, dim=1), None if cls_qkv is None else torch.cat(copies, dim=-1)

    def _attend(
        self, pattern: Pattern, qkv: QKV, cls_qkv: QKV | None, state: StreamState | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Attend under one pattern; (B, T, H, W, n, d) each, class tokens (B, C, n, d) each."""
        q, k, v = qkv
        queries = pattern.group(q)  # (B*G, n, S, d)
        if cls_qkv is None:
            inputs = queries, pattern.keys(k), pattern.keys(v), pattern.mask(k)
            if state is not None and isinstance(inputs[-1], Causal):
                return state.resume(self.kernel, *inputs), None
            return self.kernel(*inputs), None
        q_cls, keys, values, mask = with_cls(pattern, (k, v), cls_qkv)
        if self.cls == "global":
            out = self.kernel(queries, keys, values, mask)
            return out, self._attend_cls(pattern, (k, v), cls_qkv)
        count = q_cls.shape[2]
        if mask is not None and mask.shape[-2] > 1:  # a copy attends to all tokens of its group
            seen = mask.any(dim=-2, keepdim=True).expand(-1, -1, count, -1)
            mask = torch.cat([seen, mask], dim=-2)
        out = self.kernel(torch.cat([q_cls, queries], dim=2), keys, values, mask)
        copies, out = out.split([count, out.shape[2] - count], dim=2)
        return out, by_group(copies, pattern, q)

    def _attend_cls(self, pattern: Pattern, kv: QKV, cls_qkv: QKV) -> Tensor:
        """Attend with the class tokens alone; returns their copies (B, G, C, n*d)."""
        if self.cls == "global":
            pattern = PATTERNS.build("joint")
        *qkv, mask = with_cls(pattern, kv, cls_qkv)
        mask = None if mask is None else mask.any(dim=-2, keepdim=True)
        return by_group(self.kernel(*qkv, mask), pattern, kv[0])

    def _merge_copies(self, copies: list[Tensor], keep: Tensor | None) -> Tensor:
        if keep is not None and keep.shape[1] > 1:  # a single pattern, and a factor for each copy
            out = self.proj_drop(self.proj(copies[0])) * keep[..., None, None]
            return out.mean(dim=1)
        # Averaging commutes with the projection: one token is projected instead of G copies.
        out = torch.cat([copy.mean(dim=1) for copy in copies], dim=-1)
        out = self.proj_drop(self.proj(out))
        return out if keep is None else out * keep[..., None]


def _can_recompute() -> bool:
    """A compiler chooses itself what to recompute, and cannot redraw random features."""
    return torch.is_grad_enabled() and not torch.compiler.is_compiling()


def _split(qkv: QKV, count: int) -> list[QKV]:
    """Split the heads (..., n, d) into parts, for each pattern as many."""
    return list(zip(*(x.chunk(count, dim=-2) for x in qkv), strict=True))

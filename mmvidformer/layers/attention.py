"""Multi-head attention on a grid of tokens.

Queries, keys and values are projected, shifted, mapped and gated in the order of the tokens and
regrouped afterwards, so each token is projected once, however many groups it is in. The letters of
shapes are told in ``layers.patterns``.
"""

from collections.abc import Mapping, Sequence
from typing import get_args

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.abilities import attention_conflicts, refuse
from mmvidformer.layers.config import ClsPolicy, SubLayer, name_of
from mmvidformer.layers.drop import Draw
from mmvidformer.layers.fixation import Fixation
from mmvidformer.layers.kernels import KERNELS
from mmvidformer.layers.linear import QueryValueBias
from mmvidformer.layers.masks import Causal
from mmvidformer.layers.norm import QueryKeyNorm
from mmvidformer.layers.patterns import PATTERNS, Pattern
from mmvidformer.layers.patterns.base import one_sequence, regroup, ungroup
from mmvidformer.layers.patterns.causal import past_sequence
from mmvidformer.layers.rotary import ROPES, RotaryPositions
from mmvidformer.layers.shift import Shift, build_shift
from mmvidformer.layers.tokens import Context, Grid
from mmvidformer.lookup import look_up

Heads = tuple[Tensor, Tensor, Tensor]  # queries, keys and values


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
            is visible in each group, and it attends to all tokens itself. ``'sink'``: no place
            attends to it; it attends to itself and to the places that the last frame sees, so that
            streams have its answer after each frame (LeVJEPA). ``'skip'``: it joins no group and is
            not updated. Causal patterns need ``'sink'`` or ``'skip'``, which is also right for a
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

    Raises:
        UserError: If ``num_heads`` does not divide ``dim``, if the number of patterns does not
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
            raise UserError(f"dim ({dim}) must be a multiple of num_heads ({num_heads})")
        if not patterns or num_heads % len(patterns):
            raise UserError(
                f"num_heads ({num_heads}) must be a multiple of the number of patterns, "
                f"{len(patterns)} {list(patterns)}"
            )
        if cls not in get_args(ClsPolicy):
            raise UserError(f"cls must be one of {get_args(ClsPolicy)}, got {cls!r}")
        parts = SubLayer(tuple(patterns), cls, kernel, shifts=shifts)
        refuse(attention_conflicts(parts, rope, qkv_bias), "clips")
        self.num_heads = num_heads
        self.patterns: tuple[Pattern, ...] = tuple(PATTERNS.build(row) for row in patterns)
        self.cls = cls
        if qkv_bias not in (True, False, "qv"):
            raise UserError(f"qkv_bias must be True, False or 'qv', got {qkv_bias!r}")
        head_dim = dim // num_heads
        options: dict = dict(head_dim=head_dim, dropout=attn_drop)
        if look_up(KERNELS, str(name_of(kernel)), KERNELS.what).needs_heads:
            options["num_heads"] = num_heads
        self.kernel = KERNELS.build(kernel, **options)
        inner = self.kernel.expand * dim
        if qkv_bias == "qv":
            self.qkv: nn.Linear = QueryValueBias(dim)
        else:
            self.qkv = nn.Linear(dim, self.kernel.parts * inner, bias=bool(qkv_bias))
        moves = {f"shift{i}": build_shift(shift, inner) for i, shift in enumerate(shifts)}
        features = self.kernel.feature_map
        gates: dict[str, nn.Module] = {} if features is None else {"features": features}
        if fixation:
            options = {"type": fixation} if isinstance(fixation, str) else dict(fixation)
            name = options.pop("type", "qkv_shared")
            gates["fixation"] = Fixation(inner, num_heads, name, **options)
        if shift_last and not (gates and moves):
            raise UserError("shift_last=True has no effect without shifts and gates; leave it out")
        if getattr(self.kernel, "last_map", None) is not None and not (fixation or moves):
            raise UserError("map_last=True has no effect without gates or shifts; leave it out")
        stages = {**gates, **moves} if shift_last else {**moves, **gates}
        if qk_norm is not None:
            stages = {"qk_norm": QueryKeyNorm(inner // num_heads, num_heads, qk_norm), **stages}
        if rope is not None:
            stages["rope"] = ROPES.build(rope, head_dim=head_dim)
        self.prepare = nn.ModuleDict(stages)  # weights in files have this name
        self.proj = nn.Linear(inner, dim)
        self.proj_drop = nn.Dropout(proj_drop) if proj_drop else None

    def forward(self, tokens: Tensor, context: Context, draw: Draw | None = None) -> Tensor:
        """Attend.

        Args:
            tokens: Tokens (B, P + T H W, D); with ``cls='skip'`` those of the places alone.
            context: Their order, and what belongs to them.
            draw: Factors of stochastic depth. Default: nothing is dropped.

        Returns:
            Update of the tokens, in their shape.

        Raises:
            UserError: If there is a prefix that is to be skipped.
        """
        if self.cls == "skip" and context.grid.prefix:
            raise UserError(
                f"attention with cls='skip' takes tokens without a prefix, got {context.grid}"
            )
        factors = None if draw is None else draw.factors
        q, k, v = self.project(tokens, context)
        return self.project_out(self.mix(q, k, v, context, factors), context, draw)

    def project(self, tokens: Tensor, context: Context) -> Heads:
        """Project to queries, keys and values of all heads, and shift, map, gate and turn them.

        Returns (B, P + T H W, n, d) each.
        """
        return self.run_stages(self.qkv(tokens), context)

    def mix(
        self, q: Tensor, k: Tensor, v: Tensor, context: Context, factors: Tensor | None = None
    ) -> Tensor:
        """Exchange values between tokens; linear in the values for given queries and keys.

        Args:
            q: Queries, as ``project`` returns them, like the next two.
            k: Keys.
            v: Values.
            context: That of the tokens.
            factors: Those of the groups (B, G) or (B, 1), by which the copies of the prefix are
                averaged. Default: equal ones.

        Returns:
            (B, P + T H W, D).
        """
        if self.cls == "sink" and context.grid.prefix:
            prefix = self.attend_to_past(q, k, v, context)  # before a stream's state goes on
            q, k, v = (x[:, context.grid.prefix :] for x in (q, k, v))
            places = self.mix(q, k, v, context.without_prefix(), factors)
            return torch.cat([prefix, places], dim=1)
        outs, count = [], len(self.patterns)
        all_heads = ((q, k, v),) if count == 1 else split_heads(q, k, v, count)
        for pattern, heads in zip(self.patterns, all_heads, strict=True):
            queries, keys, values, mask = regroup(pattern, self.cls, *heads, context)
            if isinstance(mask, Causal) and context.state is not None:
                out = context.state.resume(self.kernel, queries, keys, values, mask)
            else:
                out = self.kernel(queries, keys, values, mask)
            out = ungroup(pattern, self.cls, out, context, factors)
            if self.cls == "global" and context.grid.prefix and not pattern.whole:
                out = torch.cat([self.attend_to_all(*heads, context), out], dim=1)
            outs.append(out)
        return outs[0] if len(outs) == 1 else torch.cat(outs, dim=-1)

    def attend_to_all(self, q: Tensor, k: Tensor, v: Tensor, context: Context) -> Tensor:
        """Let the prefix attend to all tokens: (B, P + T H W, n, d) each to (B, P, n d)."""
        prefix = q[:, : context.grid.prefix]
        out = self.kernel(*one_sequence(prefix, k, v, context))
        return out.transpose(1, 2).flatten(2)

    def attend_to_past(self, q: Tensor, k: Tensor, v: Tensor, context: Context) -> Tensor:
        """Let the prefix attend as a sink: (B, P + T H W, n, d) each to (B, P, n d)."""
        outs, number = [], 0
        all_heads = split_heads(q, k, v, len(self.patterns))
        for pattern, heads in zip(self.patterns, all_heads, strict=True):
            out = self.kernel(*past_sequence(pattern, *heads, context, number))
            outs.append(out.transpose(1, 2).flatten(2))
            number += not pattern.within_frames
        return torch.cat(outs, dim=-1)

    def project_out(self, out: Tensor, context: Context, draw: Draw | None) -> Tensor:
        """Project what ``mix`` returns, and scale the update."""
        update = self.proj(out)
        if self.proj_drop is not None:
            update = self.proj_drop(update)
        if draw is None:
            return update
        return draw.scale_groups(update, self.patterns[0], context.grid)

    def run_stages(self, projected: Tensor, context: Context) -> Heads:
        """Shift, map, gate and turn what is projected, (B, P + T H W, 3 n d)."""
        parts = torch.unflatten(projected, -1, (self.kernel.parts, self.num_heads, -1)).unbind(2)
        q, k, v = parts[0], parts[1], parts[-1]  # keys may be values
        del projected, parts  # freed once no stage needs them
        for stage in self.prepare.values():
            if isinstance(stage, Shift):
                k, v = _shift(stage, k, v, context.grid)
            elif isinstance(stage, RotaryPositions):
                q, k, v = stage(q, k, v, context)
            else:
                q, k, v = stage(q, k, v)
        return q, k, v


def _shift(shift: Shift, k: Tensor, v: Tensor, grid: Grid) -> tuple[Tensor, ...]:
    """Shift the keys and values of the places among (B, P + T H W, n, d), as one tensor."""
    prefix, places = grid.split(torch.stack([k, v], dim=2))
    return grid.join(prefix, shift.shift(places)).unbind(2)


def split_heads(q: Tensor, k: Tensor, v: Tensor, count: int) -> list[Heads]:
    """Split the heads of (B, L, n, d) into parts, of as many heads each."""
    return list(zip(*(x.chunk(count, dim=-2) for x in (q, k, v)), strict=True))

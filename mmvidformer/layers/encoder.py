"""Blocks of attention and MLP, and the encoder that runs them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvidformer.layers.attention import Attention, AttentionSubLayer
from mmvidformer.layers.config import EncoderConfig, SubLayer, check_encoder, read
from mmvidformer.layers.drop import DropPath, compute_kept
from mmvidformer.layers.embed import POSITIONS
from mmvidformer.layers.frames import average_frames, one_per_frame, split_frames
from mmvidformer.layers.keep import refusals
from mmvidformer.layers.kernels import KERNELS, Kernel
from mmvidformer.layers.linear import has_hooks
from mmvidformer.layers.lookup import look_up
from mmvidformer.layers.mlp import MLPS, DepthwiseConv, Mlp
from mmvidformer.layers.norm import NORMS, build_scale
from mmvidformer.layers.patterns import PATTERNS, grid_size
from mmvidformer.layers.rotary import ROPES, with_prefix
from mmvidformer.layers.tokens import Context, Grid, Size, Tokens, pool_tokens


class TransformerBlock(nn.Module):
    """Attention sub-layers in order, then an MLP, each after a norm and with a residual connection.

    Args:
        config: Description of the encoder, or a dictionary of it.
        sublayers: The sub-layers. They are named after their patterns; a repeated name gets the
            number of the sub-layer. Default: those of the first block of the encoder.
        drop_path_rate: Stochastic-depth rate of this block. The MLP draws for a whole clip.

    Raises:
        KeyError: If a name, or a key of a dictionary, is unknown.
        ValueError: If there are no sub-layers.
    """

    def __init__(
        self,
        config: EncoderConfig | Mapping,
        sublayers: Sequence[SubLayer] | None = None,
        drop_path_rate: float = 0.0,
    ) -> None:
        super().__init__()
        config = read(EncoderConfig, config, "option of an encoder")
        sublayers = config.blocks[0] if sublayers is None else sublayers
        if not sublayers:
            raise ValueError("a block needs at least one sub-layer, got none")
        self.parallel = config.parallel
        self.sublayers = nn.ModuleDict()
        for number, sublayer in enumerate(sublayers, start=1):
            taken = sublayer.name in self.sublayers
            name = f"{sublayer.name}_{number}" if taken else sublayer.name
            drop_path = DropPath(drop_path_rate, config.drop_path_rule)
            self.sublayers[name] = AttentionSubLayer(config, sublayer, drop_path)
        dim, _, _, ratio = config.sizes.values()
        self.norm = NORMS.build(config.norm, normalized_shape=dim)
        options = dict(dim=dim, hidden_dim=int(dim * ratio), drop=config.drop_rate)
        self.mlp = MLPS.build(config.mlp, **options)
        self.scale = build_scale(dim, config.layer_scale)
        self.drop_path = DropPath(drop_path_rate, config.drop_path_rule)

    def forward(self, tokens: Tensor, context: Context) -> Tensor:
        """Return the tokens after the block.

        Args:
            tokens: Tokens (B, P + T H W, D).
            context: Their order, and what belongs to them.

        Returns:
            Tokens in their shape; with ``context.prefix_only`` the prefix alone, (B, P, D).
        """
        source, prefix = tokens, context.grid.prefix
        sub: Any
        for number, sub in enumerate(self.sublayers.values(), start=1):
            last = self.parallel or number == len(self.sublayers)
            seen = context._replace(prefix_only=context.prefix_only and last)
            skipped = None
            if sub.attn.cls == "skip" and prefix:
                skipped, tokens = tokens.split([prefix, tokens.shape[1] - prefix], dim=1)
                seen = seen.without_prefix()
            x = tokens
            if self.parallel:
                x = source if skipped is None else source[:, prefix:]
            draw, fc_weight = sub.draw(x, seen), sub.fc_weight(x)
            x, seen = sub.norm(draw.take(x)), seen.take_rows(draw.rows)
            update = sub.attn(x, seen, draw.keep, draw.prefix_keep, fc_weight)
            update = sub.fc(update) if fc_weight is None else update + sub.fc.bias.to(update)
            if seen.prefix_only:
                tokens = tokens[:, :prefix]
            tokens = draw.add(tokens, sub.scale(update))
            if skipped is not None:
                tokens = torch.cat([skipped, tokens], dim=1)
        draw = compute_kept(self.drop_path(tokens, clip_rows=context.clip_rows))
        x = self.norm(draw.take(tokens))
        if context.grid.prefix:
            update = self.scale(self.mlp(x))
        else:  # an MLP may convolve
            update = self.scale(self.mlp(x.unflatten(1, context.grid.size)).flatten(1, 3))
        return draw.add(tokens, update if draw.keep is None else update * draw.keep[..., None])


class Encoder(nn.Module):
    """A transformer encoder on a grid of tokens: class token, positions, blocks and final norm.

    The tokens between the blocks, to which updates are added, have at least the precision of the
    weights, whatever the positions: under autocast they are float32, and the updates are rounded.

    Attributes:
        passes_grid: Whether the places are read by others; otherwise ``cls_only`` may be set.
        cls_only: Whether to return the prefix alone, and to compute only what it needs in the last
            block. ``models.inference`` sets it if nothing reads the places.
        refusals: Parts that need all tokens of a clip.

    Args:
        config: Its options.
        size: Grid (T, H, W) of the input, for position tables and kernels of a fixed length. Inputs
            of other sizes work too.
        in_dim: Width of the input; if it is not D, a linear layer comes first. Default: D.
        passes_grid: See above.
        final_norm: Whether there is a norm after the last block.

    Raises:
        KeyError: If a name is unknown.
        ValueError: If the parts do not go together.
    """

    def __init__(
        self,
        config: EncoderConfig,
        size: Size,
        in_dim: int | None = None,
        passes_grid: bool = False,
        final_norm: bool = True,
    ) -> None:
        super().__init__()
        check_encoder(config, passes_grid)
        dim, depth, heads, _ = config.sizes.values()
        rate = config.drop_path_rate
        known = {"together", "token", "pool", "average"}
        self.frames = look_up(known, config.frames, "value of frames")
        self.passes_grid, self.cls_only = passes_grid, False
        self.refusals = refusals(config)
        has_cls = config.cls is not None
        size = (1, *size[1:]) if self.single_frames else size
        self.proj = nn.Identity() if in_dim in (None, dim) else nn.Linear(in_dim, dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim)) if has_cls else None
        has_token = self.frames == "token"
        if has_token and self.refusals.places:
            name = self.refusals.places[0]
            raise ValueError(f"{name} has no place for the token of frames='token'")
        self.frame_token = nn.Parameter(torch.zeros(1, 1, 1, dim)) if has_token else None
        registers = nn.init.trunc_normal_(torch.empty(1, config.registers, dim), std=0.02)
        self.registers = nn.Parameter(registers) if config.registers else None
        positions = config.positions
        positions = {"type": positions} if isinstance(positions, str) else dict(positions)
        name = positions.setdefault("type", "joint")
        if self.single_frames:  # which have no place in time
            positions["type"] = {"space_time": "space", "time": "none"}.get(name, name)
        self.pos_embed = POSITIONS.build(positions, dim=dim, size=size, cls=has_cls)
        self.pos_drop = nn.Dropout(config.drop_rate)
        norm = partial(NORMS.build, config.norm, normalized_shape=dim)
        self.norm_pre = norm() if config.norm_pre else nn.Identity()
        # Its table is the same in all sub-layers.
        self.rope = None if config.rope is None else ROPES.build(config.rope, head_dim=dim // heads)
        self.blocks = nn.ModuleList()
        for number in range(depth):
            row = config.blocks[number % len(config.blocks)]
            row = [_with_length(sublayer, size, has_cls + config.registers) for sublayer in row]
            self.blocks.append(TransformerBlock(config, row, rate * number / max(depth - 1, 1)))
        if has_cls and any(isinstance(part, DepthwiseConv) for part in self.modules()):
            raise ValueError(
                f"depthwise needs a grid of tokens alone: cls must be None, got {config.cls!r}"
            )
        self.norm = norm() if final_norm else nn.Identity()
        self.with_cp = config.with_cp
        for part in self.modules():
            if isinstance(part, Attention | Mlp):
                part.recompute = self.with_cp == "activations"

    @property
    def single_frames(self) -> bool:
        """Whether each frame is encoded on its own."""
        return self.frames in ("pool", "average")

    def out_grid(self, grid: Size) -> Size:
        """Return the grid (T, H, W) of the output for that of the input."""
        if self.frames == "together":
            return grid
        return (1, *grid[1:]) if self.frames == "average" else (grid[0], 1, 1)

    def forward(self, tokens: Tokens, outputs: list[Tokens] | None = None) -> Tokens:
        """Encode and normalize.

        Args:
            tokens: Tokens (B, T H W, D'), and what belongs to them. A prefix, that of an encoder
                before, is not read. Not every encoder can do without some places, or count tokens
                several times (``refusals``). With ``clip_rows`` each row is a frame, for encoders
                of single frames.
            outputs: List to which the tokens after each block are appended, not normalized. Single
                frames are clips of their own. The tokens of ``frames='token'`` are a prefix.

        Returns:
            Normalized tokens (B, P + T H W, D) in the order of ``out_grid``. If the prefix alone is
            read (``Context.prefix_only``), they may have no places, and T is 0.
        """
        clips = tokens.context
        self.refusals.check(clips.keep, clips.weight)
        shape = (tokens.tensor.shape[0], *clips.grid.size)
        if clips.weight is not None and clips.weight.shape != shape:
            got = tuple(clips.weight.shape)
            raise ValueError(f"weight must be (B, T, H, W) = {shape}, as the tokens, got {got}")
        if self.single_frames:
            tokens = split_frames(tokens)
        tensor, context = self.run_blocks(tokens, outputs)
        if self.frames == "together":
            return Tokens(self.norm(tensor), clips._replace(grid=context.grid))
        if self.frames == "token":  # the first of each frame
            return one_per_frame(self.norm(tensor[:, :: context.grid.w]), clips)
        if self.frames == "average":
            tensor = self.norm(average_frames(tensor, clips))
            return Tokens(tensor, clips._replace(grid=context.grid, weight=None, clip_rows=None))
        pooled = pool_tokens(Tokens(self.norm(tensor), context), "cls")
        return one_per_frame(pooled.unflatten(0, (-1, clips.grid.t)), clips)

    def run_blocks(self, tokens: Tokens, outputs: list[Tokens] | None = None) -> Tokens:
        """Encode without the final norm. Single frames are clips of their own."""
        size = tokens.context.grid.size
        prefix_only = self.cls_only or (tokens.context.prefix_only and self.can_leave_grid())
        tensor, context = self.start(tokens)
        again = self.with_cp is True and torch.is_grad_enabled() and context.state is None
        for number, block in enumerate(self.blocks, start=1):
            is_last = number == len(self.blocks)
            context = context._replace(prefix_only=prefix_only and is_last)
            run = partial(checkpoint, block, use_reentrant=False) if again else block
            tensor = run(tensor, context)
            if context.prefix_only:
                context = context._replace(grid=context.grid._replace(t=0))
            if outputs is not None:
                outputs.append(self._with_frame_tokens_first(tensor, context, size))
        return Tokens(tensor, context)

    def can_leave_grid(self) -> bool:
        """Return whether nothing reads the grid, and the last block can do without its updates."""
        parts = [self, self.norm, *self.blocks[-1].modules()]
        kernels = [part for part in parts if isinstance(part, Kernel)]
        separate = all("some_queries" in kernel.supports for kernel in kernels)
        hooked = any(has_hooks(part) for part in parts)
        return self.cls_token is not None and not self.passes_grid and separate and not hooked

    def start(self, tokens: Tokens) -> Tokens:
        """Return the input of the first block: with a prefix, positions, and their rotary table."""
        grid, context = self.proj(tokens.places), tokens.context
        # Of autocast, the input may have less precision than the weights.
        grid = grid.to(torch.promote_types(grid.dtype, next(self.blocks.parameters()).dtype))
        cls: Tensor | None = self.cls_token
        if cls is not None and self.registers is not None:
            cls = torch.cat([cls, self.registers], dim=1)
        prefix = 0 if cls is None else cls.shape[1]
        keep, state, weight = context.keep, context.state, context.weight
        whole = grid  # whose positions are those of the places
        if keep is not None:
            size = (grid.shape[1], *keep.size) if keep.in_frames else keep.size
            whole = grid.new_zeros(()).expand(1, *size, grid.shape[-1])
        rope = None
        if self.rope is not None:
            rope = self.rope.table(whole, 0 if state is None else state.steps)
            rope = with_prefix(rope if keep is None else keep.take(rope), prefix)
        whole, cls = self.pos_embed(whole, cls, state)
        grid = whole if keep is None else grid + keep.take(whole)
        if self.frame_token is not None:
            frame_tokens = self.frame_token.expand(*grid.shape[:2], -1, -1)
            grid = torch.cat([frame_tokens, grid.flatten(2, 3)], dim=2)[:, :, None]
        order = Grid(*grid_size(grid), prefix)
        tensor = grid.flatten(1, 3)
        if cls is not None:
            tensor = order.join(cls.expand(grid.shape[0], -1, -1), grid)
        if weight is not None:
            weight = weight.to(torch.promote_types(grid.dtype, torch.float32))
        tensor = self.norm_pre(self.pos_drop(tensor))
        # Single frames that are averaged draw on their own (TimeSformer).
        clip_rows = None if self.frames == "average" else context.clip_rows
        context = context._replace(grid=order, weight=weight, rope=rope, clip_rows=clip_rows)
        return Tokens(tensor, context)

    def _with_frame_tokens_first(self, tensor: Tensor, context: Context, size: Size) -> Tokens:
        """Return tokens whose prefix are those of the frames, if the encoder has them."""
        context = context._replace(prefix_only=False)
        if self.frame_token is None:
            return Tokens(tensor, context)
        first, others = tensor.unflatten(1, (size[0], -1)).tensor_split([1], dim=2)
        tensor = torch.cat([first.flatten(1, 2), others.flatten(1, 2)], dim=1)
        return Tokens(tensor, context._replace(grid=Grid(*size, prefix=size[0])))


def _with_length(sublayer: SubLayer, size: Size, prefix: int) -> SubLayer:
    """Tell a kernel of a fixed length how many keys a group has, of which P are the prefix."""
    kernel = sublayer.kernel
    options: dict[str, Any] = {"type": kernel} if isinstance(kernel, str) else dict(kernel)
    if look_up(KERNELS, str(options.get("type")), "attention kernel").needs_length:
        keys = PATTERNS.build(sublayer.patterns[0]).num_keys(size)
        options.setdefault("length", keys + (0 if sublayer.cls == "skip" else prefix))
    return replace(sublayer, kernel=options)

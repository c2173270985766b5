"""The encoder: prefix, positions, blocks and final norm."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.abilities import find_conflicts, refuse, refuse_tokens
from mmvidformer.layers.block import TransformerBlock
from mmvidformer.layers.config import EncoderConfig, SubLayer
from mmvidformer.layers.frames import (
    average_frames,
    frame_tokens_first,
    one_per_frame,
    split_frames,
)
from mmvidformer.layers.kernels import KERNELS
from mmvidformer.layers.norm import NORMS
from mmvidformer.layers.patterns import PATTERNS
from mmvidformer.layers.positions import POSITIONS
from mmvidformer.layers.rotary import ROPES, with_prefix
from mmvidformer.layers.tokens import Context, Grid, Size, Tokens, pool_tokens, split_counts
from mmvidformer.lookup import look_up


class Encoder(nn.Module):
    """A transformer encoder on a grid of tokens: class token, positions, blocks and final norm.

    The tokens between the blocks, to which updates are added, have at least the precision of the
    weights, whatever the positions: under autocast they are float32, and the updates are rounded.

    Attributes:
        frames: As in ``EncoderConfig``.
        conflicts: What the encoder cannot do (``layers.abilities``).
        passes_grid: Whether the places are read by others.

    Args:
        config: Options of the encoder.
        size: Grid (T, H, W) of the input, for position tables and kernels of a fixed length. Inputs
            of other sizes work too.
        in_dim: Width of the input; if it is not D, a linear layer comes first. Default: D.
        passes_grid: See above.
        final_norm: Whether there is a norm after the last block.

    Raises:
        KeyError: If a name is unknown.
        UserError: If the parts do not go together.
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
        dim, depth, heads, _ = config.sizes.values()
        known = {"together", "token", "pool", "average"}
        self.frames = look_up(known, config.frames, "value of frames")
        self.conflicts = find_conflicts(config, passes_grid)
        refuse(self.conflicts, "clips")
        self.passes_grid = passes_grid
        has_cls, has_token = config.cls is not None, self.frames == "token"
        self.proj = nn.Identity() if in_dim in (None, dim) else nn.Linear(in_dim, dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim)) if has_cls else None
        self.frame_token = nn.Parameter(torch.zeros(1, 1, 1, dim)) if has_token else None
        registers = nn.init.trunc_normal_(torch.empty(1, config.registers, dim), std=0.02)
        self.registers = nn.Parameter(registers) if config.registers else None
        positions = config.positions
        positions = {"type": positions} if isinstance(positions, str) else dict(positions)
        name = positions.setdefault("type", "joint")
        if self.single_frames:  # which have no place in time
            positions["type"] = {"space_time": "space", "time": "none"}.get(name, name)
            size = (1, *size[1:])
        self.pos_embed = POSITIONS.build(positions, dim=dim, size=size, cls=has_cls)
        self.pos_drop = nn.Dropout(config.drop_rate)
        self.norm_pre: nn.Module = nn.Identity()
        if config.norm_pre:
            self.norm_pre = NORMS.build(config.norm, normalized_shape=dim)
        # Its table is the same in all sub-layers.
        self.rope = None if config.rope is None else ROPES.build(config.rope, head_dim=dim // heads)
        rate, prefix = config.drop_path_rate, (config.cls is not None) + config.registers
        self.blocks = nn.ModuleList()
        for number in range(depth):
            row = config.blocks[number % len(config.blocks)]
            row = [_with_length(sublayer, size, prefix) for sublayer in row]
            self.blocks.append(TransformerBlock(config, row, rate * number / max(depth - 1, 1)))
        norm = NORMS.build(config.norm, normalized_shape=dim) if final_norm else nn.Identity()
        self.norm: nn.Module = norm
        self.layer_norms = nn.ModuleDict()
        for number in config.layer_norms:
            if not 0 <= number < depth:
                raise UserError(f"layer_norms must be 0 to {depth - 1}, got {number}")
            self.layer_norms[str(number)] = NORMS.build(config.norm, normalized_shape=dim)

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
                several times (``conflicts``). With ``clip_rows`` each row is a frame, for encoders
                of single frames.
            outputs: List to which the tokens after each block are appended, not normalized. Single
                frames are clips of their own. The tokens of ``frames='token'`` are a prefix.

        Returns:
            Normalized tokens (B, P + T H W, D) in the order of ``out_grid``.
        """
        clips = tokens.context
        if clips.kept is not None or clips.counts is not None:
            refuse_tokens(self.conflicts, tokens)
        if self.single_frames:
            tokens = split_frames(tokens)
        size = tokens.context.grid.size
        tensor, context = self.start(tokens)
        for block in self.blocks:
            tensor = block(tensor, context)
            if outputs is not None:
                output = Tokens(tensor, context)
                has_tokens = self.frame_token is not None
                outputs.append(frame_tokens_first(output, size) if has_tokens else output)
        if self.frames == "together":
            return Tokens(self.norm(tensor), clips._replace(grid=context.grid))
        return self._join_frames(tensor, context, clips)

    def start(self, tokens: Tokens) -> Tokens:
        """Return the input of the first block: with a prefix, positions, and their rotary table."""
        grid, context = self.proj(tokens.places), tokens.context
        # Of autocast, the input may have less precision than the weights.
        grid = grid.to(torch.promote_types(grid.dtype, next(self.blocks.parameters()).dtype))
        grid, cls, rope = self._with_positions(grid, context)
        counts = context.counts
        if self.frame_token is not None:
            grid, counts = self._with_frame_tokens(grid, self.frame_token, context)
        if counts is not None:
            counts = counts.to(torch.promote_types(grid.dtype, torch.float32))
        rows, t, h, w, _ = grid.shape
        order = Grid(t, h, w, prefix=0 if cls is None else cls.shape[1])
        tensor = grid.flatten(1, 3) if cls is None else order.join(cls.expand(rows, -1, -1), grid)
        tensor = self.norm_pre(self.pos_drop(tensor))
        # Single frames that are averaged draw on their own (TimeSformer).
        clip_rows = None if self.frames == "average" else context.clip_rows
        context = context._replace(grid=order, counts=counts, rope=rope, clip_rows=clip_rows)
        return Tokens(tensor, context)

    def _with_positions(
        self, grid: Tensor, context: Context
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return places (B, T, H, W, D) and the prefix with positions, and the rotary table."""
        cls: Tensor | None = self.cls_token
        if cls is not None and self.registers is not None:
            cls = torch.cat([cls, self.registers], dim=1)
        kept, state = context.kept, context.state
        size: Any = context.grid.size  # that of the places, which some tokens may not have
        if kept is not None:
            size = (size[0], *kept.size) if kept.in_frames else kept.size
        like = grid.new_empty(0, grid.shape[-1])
        tables, cls_placed = self.pos_embed(size, like, cls, state)
        for table in tables:
            grid = grid + (table if kept is None else kept.take(table.expand(1, *size, -1)))
        if self.rope is None:
            return grid, cls_placed, None
        rope = self.rope.table(size, like, 0 if state is None else state.steps)
        rope = rope if kept is None else kept.take(rope)
        return grid, cls_placed, with_prefix(rope, 0 if cls is None else cls.shape[1])

    def _with_frame_tokens(
        self, grid: Tensor, token: Tensor, context: Context
    ) -> tuple[Tensor, Tensor | None]:
        """Put a token before the places of each frame, (B, T, 1, 1 + H W, D); and the counts."""
        tokens = token.expand(*grid.shape[:2], -1, -1)
        grid = torch.cat([tokens, grid.flatten(2, 3)], dim=2)[:, :, None]
        counts = context.counts
        if counts is None:
            return grid, None
        of_frames = split_counts(counts, context.kept)[1].flatten(2)  # such a token is a frame's
        return grid, torch.cat([of_frames, counts.flatten(2)], dim=2)[:, :, None]

    def _join_frames(self, tensor: Tensor, context: Context, clips: Context) -> Tokens:
        """Normalize, and return what is read of the frames as the tokens of their clips."""
        if self.frames == "token":  # the first of each frame
            return one_per_frame(self.norm(tensor[:, :: context.grid.w]), clips)
        if self.frames == "average":
            tensor, counts = average_frames(tensor, clips)
            clips = clips._replace(grid=context.grid, counts=counts, clip_rows=None)
            return Tokens(self.norm(tensor), clips)
        pooled = pool_tokens(Tokens(self.norm(tensor), context), "cls")
        return one_per_frame(pooled.unflatten(0, (-1, clips.grid.t)), clips)

    def norm_of(self, number: int) -> nn.Module:
        """Return the norm of the tokens after a block, if others read them."""
        own = str(number) in self.layer_norms
        return self.layer_norms[str(number)] if own else self.norm


def _with_length(sublayer: SubLayer, size: Size, prefix: int) -> SubLayer:
    """Tell a kernel of a fixed length how many keys a group has, of which P are the prefix."""
    kernel = sublayer.kernel
    options: dict[str, Any] = {"type": kernel} if isinstance(kernel, str) else dict(kernel)
    if look_up(KERNELS, str(options.get("type")), "attention kernel").needs_length:
        keys = PATTERNS.build(sublayer.patterns[0]).num_keys(size)
        options.setdefault("length", keys + (0 if sublayer.cls == "skip" else prefix))
    return replace(sublayer, kernel=options)

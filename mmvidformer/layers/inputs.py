"""What comes before the blocks of an encoder: its prefix and positions."""

from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.layers.abilities import find_conflicts, refuse
from mmvidformer.layers.config import EncoderConfig
from mmvidformer.layers.norm import NORMS
from mmvidformer.layers.patterns import grid_size
from mmvidformer.layers.positions import POSITIONS
from mmvidformer.layers.rotary import ROPES, with_prefix
from mmvidformer.layers.tokens import Grid, Size, Tokens, split_counts
from mmvidformer.lookup import look_up


class EncoderInput(nn.Module):
    """The input side of an encoder: width, class token, registers and positions.

    Attributes:
        frames: As in ``EncoderConfig``.
        conflicts: What the encoder cannot do (``layers.abilities``).

    Args:
        config: Options of the encoder.
        size: Grid (T, H, W) of the input, for position tables and kernels of a fixed length. Inputs
            of other sizes work too.
        in_dim: Width of the input; if it is not D, a linear layer comes first. Default: D.
        passes_grid: Whether the places are read by others.

    Raises:
        KeyError: If a name is unknown.
        UserError: If the parts do not go together.
    """

    blocks: nn.ModuleList

    def __init__(
        self,
        config: EncoderConfig,
        size: Size,
        in_dim: int | None = None,
        passes_grid: bool = False,
    ) -> None:
        super().__init__()
        dim, _, heads, _ = config.sizes.values()
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

    @property
    def single_frames(self) -> bool:
        """Whether each frame is encoded on its own."""
        return self.frames in ("pool", "average")

    def start(self, tokens: Tokens) -> Tokens:
        """Return the input of the first block: with a prefix, positions, and their rotary table."""
        grid, context = self.proj(tokens.places), tokens.context
        # Of autocast, the input may have less precision than the weights.
        grid = grid.to(torch.promote_types(grid.dtype, next(self.blocks.parameters()).dtype))
        cls: Tensor | None = self.cls_token
        if cls is not None and self.registers is not None:
            cls = torch.cat([cls, self.registers], dim=1)
        prefix = 0 if cls is None else cls.shape[1]
        kept, state, counts = context.kept, context.state, context.counts
        size: Any = grid_size(grid)  # that of the places, which some tokens may not have
        if kept is not None:
            size = (size[0], *kept.size) if kept.in_frames else kept.size
        like = grid.new_empty(0, grid.shape[-1])
        rope = None
        if self.rope is not None:
            rope = self.rope.table(size, like, 0 if state is None else state.steps)
            rope = with_prefix(rope if kept is None else kept.take(rope), prefix)
        tables, cls = self.pos_embed(size, like, cls, state)
        for table in tables:
            grid = grid + (table if kept is None else kept.take(table.expand(1, *size, -1)))
        if self.frame_token is not None:
            frame_tokens = self.frame_token.expand(*grid.shape[:2], -1, -1)
            grid = torch.cat([frame_tokens, grid.flatten(2, 3)], dim=2)[:, :, None]
            if counts is not None:  # such a token counts as often as its frame
                of_frames = split_counts(counts, kept)[1].flatten(2)
                counts = torch.cat([of_frames, counts.flatten(2)], dim=2)[:, :, None]
        order = Grid(*grid_size(grid), prefix)
        tensor = grid.flatten(1, 3)
        if cls is not None:
            tensor = order.join(cls.expand(grid.shape[0], -1, -1), grid)
        if counts is not None:
            counts = counts.to(torch.promote_types(grid.dtype, torch.float32))
        tensor = self.norm_pre(self.pos_drop(tensor))
        # Single frames that are averaged draw on their own (TimeSformer).
        clip_rows = None if self.frames == "average" else context.clip_rows
        context = context._replace(grid=order, counts=counts, rope=rope, clip_rows=clip_rows)
        return Tokens(tensor, context)

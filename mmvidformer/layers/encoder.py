from dataclasses import replace
from functools import partial
from math import lcm, prod
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvidformer.layers.attention import Attention
from mmvidformer.layers.block import TransformerBlock
from mmvidformer.layers.config import EncoderConfig, SubLayer
from mmvidformer.layers.embed import POSITIONS
from mmvidformer.layers.kernels import KERNELS, SoftmaxKernel
from mmvidformer.layers.lookup import look_up
from mmvidformer.layers.mlp import DepthwiseConv, Mlp
from mmvidformer.layers.norm import NORMS
from mmvidformer.layers.patterns import PATTERNS, Grid
from mmvidformer.layers.rotary import ROPES
from mmvidformer.layers.shift import Shift
from mmvidformer.layers.stream import StreamState

Tokens = tuple[Tensor | None, Tensor | None]  # grid and class token
Outputs = list[Tokens] | None  # tokens after each block, if they are wanted


class Places(NamedTuple):
    """Some places of the frames of a clip, the same in all frames.

    Attributes:
        numbers: Their numbers in the H W of a frame (B, N).
        size: Height H and width W of the whole grid.
    """

    numbers: Tensor
    size: tuple[int, int]

    def take(self, grid: Tensor) -> Tensor:
        """Take tokens (B, T, 1, N, D) of a grid (B, T, H, W, D), or of one for all clips."""
        return grid.flatten(2, 3).take_along_dim(self.numbers[:, None, :, None], 2)[:, :, None]

    def put(self, tokens: Tensor, others: Tensor) -> Tensor:
        """Put tokens (B, T, 1, N, D) into a grid (B, T, H, W, D) of another token."""
        rest = others.to(tokens).flatten().repeat(*tokens.shape[:2], prod(self.size), 1)
        index = self.numbers[:, None, :, None].expand_as(tokens[:, :, 0])
        return rest.scatter_(2, index, tokens[:, :, 0]).unflatten(2, self.size)

    def mask(self) -> Tensor:
        """Return whether each place of the whole grid is one of them, (B, H, W)."""
        none = self.numbers.new_zeros(len(self.numbers), prod(self.size), dtype=torch.bool)
        return none.scatter(1, self.numbers, True).unflatten(1, self.size)


class Encoder(nn.Module):
    """A transformer encoder on a grid of tokens: class token, positions, blocks and final norm.

    The tokens between the blocks, to which updates are added, have at least the precision of the
    weights, whatever the positions: under autocast they are float32, and the updates are rounded.

    Attributes:
        passes_grid: Whether the grid is read by others; otherwise ``cls_only`` may be set.
        cls_only: Whether to return None for the grid and to compute only what the class token needs
            in the last block. ``models.inference`` sets it if nothing reads the grid.

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
        size: Grid,
        in_dim: int | None = None,
        passes_grid: bool = False,
        final_norm: bool = True,
    ) -> None:
        super().__init__()
        dim, depth, heads, _ = config.sizes.values()
        rate = config.drop_path_rate
        self.frames = look_up({"together", "pool", "average"}, config.frames, "value of frames")
        self.passes_grid, self.cls_only = passes_grid, False
        has_cls = config.cls is not None
        size = (1, *size[1:]) if self.single_frames else size
        self.proj = nn.Identity() if in_dim in (None, dim) else nn.Linear(in_dim, dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim)) if has_cls else None
        if config.registers and not has_cls:
            raise ValueError(
                f"registers={config.registers} join as the class token does: cls must be 'mean' or "
                "'global', got None"
            )
        registers = nn.init.trunc_normal_(torch.empty(1, config.registers, dim), std=0.02)
        self.registers = nn.Parameter(registers) if config.registers else None
        given = config.positions
        positions = {"type": given} if isinstance(given, str) else {"type": "joint", **given}
        if self.single_frames:  # which have no place in time
            kind = positions["type"]
            positions["type"] = {"space_time": "space", "time": "none"}.get(kind, kind)
        self.pos_embed = POSITIONS.build(positions, dim=dim, size=size, cls=has_cls)
        self.pos_drop = nn.Dropout(config.drop_rate)
        norm = partial(NORMS.build, config.norm, normalized_shape=dim)
        self.norm_pre = norm() if config.norm_pre else nn.Identity()
        # Its table is the same in all sub-layers.
        self.rope = None if config.rope is None else ROPES.build(config.rope, head_dim=dim // heads)
        count = has_cls + config.registers
        blocks = [[_with_length(one, size, count) for one in row] for row in config.blocks]
        self.blocks = nn.ModuleList(
            TransformerBlock(config, blocks[i % len(blocks)], rate * i / max(depth - 1, 1))
            for i in range(depth)
        )
        if has_cls and any(isinstance(part, DepthwiseConv) for part in self.modules()):
            raise ValueError(
                f"depthwise needs a grid of tokens alone: cls must be None, got {config.cls!r}"
            )
        self.norm = norm() if final_norm else nn.Identity()
        self.with_cp = config.with_cp
        if self.with_cp not in (False, "activations", True):
            raise ValueError(f"with_cp must be False, 'activations' or True, got {self.with_cp!r}")
        for part in self.modules():
            if isinstance(part, Attention | Mlp):
                part.recompute = self.with_cp == "activations"

    @property
    def single_frames(self) -> bool:
        """Whether each frame is encoded on its own."""
        return self.frames != "together"

    @property
    def frame_block(self) -> int | None:
        """Number of frames of the blocks of a clip that are encoded on their own, if there are any.

        Tokens of a block see no others, and depend on their place in the block alone.
        """
        if self.single_frames:
            return 1
        attentions = [part for part in self.modules() if isinstance(part, Attention)]
        parts: list[Any] = [pattern for one in attentions for pattern in one.patterns]
        parts += [part for part in self.modules() if isinstance(part, Shift)]
        blocks, positions = [part.frame_block for part in parts], cast(Any, self.pos_embed)
        axes = "".join(getattr(positions, "tables", "t"))  # of one's own positions: any
        softmax = all(isinstance(one.kernel, SoftmaxKernel) for one in attentions)
        if self.rope is not None and not (softmax and self.rope.pairs != "tiled"):
            axes += self.rope.axes  # otherwise scores depend on distances alone
        if self.cls_token is not None or "t" in axes or None in blocks:
            return None
        frames, block = positions.size[0], lcm(*blocks)
        return block if block < frames and frames % block == 0 else None

    def out_grid(self, grid: Grid) -> Grid:
        """Return the grid (T, H, W) of the output for that of the input."""
        return {"together": grid, "pool": (grid[0], 1, 1), "average": (1, *grid[1:])}[self.frames]

    def forward(
        self,
        grid: Tensor,
        state: StreamState | None = None,
        outputs: Outputs = None,
        places: Places | None = None,
        lengths: Tensor | None = None,
    ) -> Tokens:
        """Encode and normalize.

        Args:
            grid: Tokens (B, T, H, W, D'); those at ``places`` alone are (B, T, 1, N, D').
            state: State of a stream that the grid is a part of.
            outputs: List to which the tokens after each block are appended, not normalized. Single
                frames are clips of their own.
            places: Places of the tokens, if others are masked. Not every encoder can do without
                them (``checks.whole_grid``).
            lengths: Numbers of frames (B,) of clips that follow each other in one row of the grid,
                (1, T, H, W, D'), for encoders of single frames (``single_frames``).

        Returns:
            Normalized grid (None with ``cls_only``) and class token (B, 1 + registers, D) or None.
            The grid is (B, T, H, W, D); of single frames it is (B, T, 1, 1, D), or (1, T, 1, 1, D)
            with ``lengths``, if they are pooled, and (B, 1, H, W, D) if they are averaged.
        """
        grid = self.proj(grid)
        if not self.single_frames:
            return self.normalize(self.run_blocks(grid, None, state, outputs, places))
        (batch, frames), grid = grid.shape[:2], grid.flatten(0, 1)[:, None]
        if places is not None:
            places = places._replace(numbers=places.numbers.repeat_interleave(frames, 0))
        if self.frames == "pool":
            rows = torch.full((batch,), frames, device=grid.device) if lengths is None else lengths
            tokens = self.normalize(self.run_blocks(grid, rows, None, outputs, places))
            return pool_tokens(*tokens).unflatten(0, (batch, frames))[:, :, None, None], None

        def average(x: Tensor) -> Tensor:
            if lengths is None:
                return x.unflatten(0, (batch, frames)).mean(1)
            return torch.stack([clip.mean(0) for clip in x.split(lengths.tolist())])

        tokens = self.run_blocks(grid, outputs=outputs, places=places)
        out, cls = (None if x is None else average(x) for x in tokens)
        return self.normalize((out, cls))

    def run_blocks(
        self,
        grid: Tensor,
        clip_rows: Tensor | None = None,
        state: StreamState | None = None,
        outputs: Outputs = None,
        places: Places | None = None,
    ) -> Tokens:
        """Encode tokens (B, T, H, W, D) without the final norm; see ``forward``, ``DropPath``."""
        # Of autocast, the input may have less precision than the weights.
        grid = grid.to(torch.promote_types(grid.dtype, next(self.blocks.parameters()).dtype))
        cls: Tensor | None = self.cls_token
        if cls is not None and self.registers is not None:
            cls = torch.cat([cls, self.registers], dim=1)
        cls = None if cls is None else cls.expand(grid.shape[0], -1, -1)
        whole = grid  # whose positions are those of the places
        if places is not None:
            whole = grid.new_zeros(()).expand(1, grid.shape[1], *places.size, grid.shape[-1])
        start = 0 if state is None else state.steps
        rope = None if self.rope is None else self.rope.table(whole, start)
        whole, cls = self.pos_embed(whole, cls, state)
        if places is not None:
            whole = grid + places.take(whole)
            rope = None if rope is None else places.take(rope)
        grid = self.norm_pre(self.pos_drop(whole))
        cls = None if cls is None else self.norm_pre(self.pos_drop(cls))
        again = self.with_cp is True and torch.is_grad_enabled() and state is None
        for i, block in enumerate(self.blocks, start=1):
            cls_only = self.cls_only and i == len(self.blocks)
            run = partial(checkpoint, block, use_reentrant=False) if again else block
            grid, cls = run(grid, cls, clip_rows, cls_only, state, rope)
            if outputs is not None:
                outputs.append((grid, cls))
        return grid, cls

    def normalize(self, tokens: Tokens) -> Tokens:
        """Apply the final norm to grid and class token."""
        grid, cls = (None if x is None else self.norm(x) for x in tokens)
        return grid, cls


def pool_tokens(grid: Tensor | None, cls: Tensor | None) -> Tensor:
    """Return the class token, first of (B, C, D), or else the mean of the grid, (B, D)."""
    if cls is not None:
        return cls[:, 0]
    assert grid is not None, "an encoder returns a grid if it has no class token"
    return grid.mean(dim=(1, 2, 3))


def _with_length(one: SubLayer, size: Grid, cls_tokens: int) -> SubLayer:
    """Tell a kernel of a fixed length how many keys a group has."""
    options: dict[str, Any]
    options = {"type": one.kernel} if isinstance(one.kernel, str) else dict(one.kernel)
    kernel = look_up(KERNELS, str(options.get("type")), "attention kernel")
    if kernel.needs_length:
        keys = PATTERNS.build(one.patterns[0]).num_keys(size)
        options.setdefault("length", keys + (0 if one.cls == "skip" else cls_tokens))
    return replace(one, kernel=options)

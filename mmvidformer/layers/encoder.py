"""Blocks of attention and MLP, and the encoder that runs them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvidformer.errors import UserError
from mmvidformer.layers.abilities import refuse_tokens
from mmvidformer.layers.attention import Attention
from mmvidformer.layers.config import EncoderConfig, SubLayer, read
from mmvidformer.layers.drop import DropPath, compute_kept
from mmvidformer.layers.frames import (
    average_frames,
    frame_tokens_first,
    one_per_frame,
    split_frames,
)
from mmvidformer.layers.inputs import EncoderInput
from mmvidformer.layers.kernels import KERNELS, Kernel
from mmvidformer.layers.linear import has_hooks
from mmvidformer.layers.lookup import look_up
from mmvidformer.layers.mlp import MLPS, Mlp
from mmvidformer.layers.norm import NORMS, build_scale
from mmvidformer.layers.patterns import PATTERNS
from mmvidformer.layers.sublayer import AttentionSubLayer
from mmvidformer.layers.tokens import Context, Size, Tokens, pool_tokens


class TransformerBlock(nn.Module):
    """Attention sub-layers in order, then an MLP, each after a norm and with a residual connection.

    Args:
        config: Description of the encoder, or a dictionary of it.
        sublayers: The sub-layers. They are named after their patterns; a repeated name gets the
            number of the sub-layer. Default: those of the first block of the encoder.
        drop_path_rate: Stochastic-depth rate of this block. The MLP draws for a whole clip.

    Raises:
        KeyError: If a name, or a key of a dictionary, is unknown.
        UserError: If there are no sub-layers.
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
            raise UserError("a block needs at least one sub-layer, got none")
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
        source, grid = tokens, context.grid
        sub: Any
        for number, sub in enumerate(self.sublayers.values(), start=1):
            is_last = self.parallel or number == len(self.sublayers)
            seen = context._replace(prefix_only=context.prefix_only and is_last)
            # It reads the tokens, or the input of the block; without a prefix that it skips.
            prefix = None
            if sub.attn.cls == "skip" and grid.prefix:
                prefix, tokens = tokens.split([grid.prefix, grid.num_places], dim=1)
                seen = seen.without_prefix()
            read = tokens
            if self.parallel:
                read = source if prefix is None else source[:, grid.prefix :]
            # Norm, attention, fc and scale, of the rows that stochastic depth keeps.
            draw, fc_weight = sub.draw(read, seen), sub.fc_weight(read)
            x = sub.norm(draw.take(read))
            update = sub.attn(x, seen.take_rows(draw.rows), draw, fc_weight)
            update = sub.finish(update, fc_weight)
            # The residual connection.
            tokens = draw.add(tokens[:, : grid.prefix] if seen.prefix_only else tokens, update)
            if prefix is not None:
                tokens = torch.cat([prefix, tokens], dim=1)
        draw = compute_kept(self.drop_path(tokens, clip_rows=context.clip_rows))
        x = self.norm(draw.take(tokens))
        if not grid.prefix:  # an MLP may convolve
            x = x.unflatten(1, grid.size)
        update = draw.scale(self.scale(self.mlp(x)))
        return draw.add(tokens, update if grid.prefix else update.flatten(1, 3))


class Encoder(EncoderInput):
    """A transformer encoder on a grid of tokens: class token, positions, blocks and final norm.

    The tokens between the blocks, to which updates are added, have at least the precision of the
    weights, whatever the positions: under autocast they are float32, and the updates are rounded.

    Attributes:
        passes_grid: Whether the places are read by others; otherwise ``cls_only`` may be set.
        cls_only: Whether to return the prefix alone, and to compute only what it needs in the last
            block. ``models.fast.inference`` sets it if nothing reads the places.

    Args:
        config: As for ``EncoderInput``, like the next two.
        size: Likewise.
        in_dim: Likewise.
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
        super().__init__(config, size, in_dim, passes_grid)
        self.cls_only = False
        dim, depth, _, _ = config.sizes.values()
        rate, prefix = config.drop_path_rate, (config.cls is not None) + config.registers
        size = (1, *size[1:]) if self.single_frames else size
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
        self.with_cp = config.with_cp
        for part in self.modules():
            if isinstance(part, Attention | Mlp):
                part.recompute = self.with_cp == "activations"

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
            Normalized tokens (B, P + T H W, D) in the order of ``out_grid``. If the prefix alone is
            read (``Context.prefix_only``), they may have no places, and T is 0.
        """
        clips = tokens.context
        refuse_tokens(self.conflicts, clips.keep, clips.weight)
        shape = (tokens.tensor.shape[0], *clips.grid.size)
        if clips.weight is not None and clips.weight.shape != shape:
            got = tuple(clips.weight.shape)
            raise UserError(f"weight must be (B, T, H, W) = {shape}, as the tokens, got {got}")
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
                outputs.append(self._as_output(tensor, context, size))
        return Tokens(tensor, context)

    def _as_output(self, tensor: Tensor, context: Context, size: Size) -> Tokens:
        tokens = Tokens(tensor, context._replace(prefix_only=False))
        return tokens if self.frame_token is None else frame_tokens_first(tokens, size)

    def norm_of(self, number: int) -> nn.Module:
        """Return the norm of the tokens after a block, if others read them."""
        own = str(number) in self.layer_norms
        return self.layer_norms[str(number)] if own else self.norm

    def can_leave_grid(self) -> bool:
        """Return whether nothing reads the grid, and the last block can do without its updates."""
        parts = [self, self.norm, *self.blocks[-1].modules()]
        kernels = [part for part in parts if isinstance(part, Kernel)]
        separate = all("some_queries" in kernel.supports for kernel in kernels)
        hooked = any(has_hooks(part) for part in parts)
        return self.cls_token is not None and not self.passes_grid and separate and not hooked


def _with_length(sublayer: SubLayer, size: Size, prefix: int) -> SubLayer:
    """Tell a kernel of a fixed length how many keys a group has, of which P are the prefix."""
    kernel = sublayer.kernel
    options: dict[str, Any] = {"type": kernel} if isinstance(kernel, str) else dict(kernel)
    if look_up(KERNELS, str(options.get("type")), "attention kernel").needs_length:
        keys = PATTERNS.build(sublayer.patterns[0]).num_keys(size)
        options.setdefault("length", keys + (0 if sublayer.cls == "skip" else prefix))
    return replace(sublayer, kernel=options)

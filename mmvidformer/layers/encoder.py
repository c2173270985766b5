"""The encoder: prefix, positions, blocks and final norm."""

from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.abilities import refuse_tokens
from mmvidformer.layers.block import TransformerBlock
from mmvidformer.layers.config import EncoderConfig, SubLayer
from mmvidformer.layers.frames import (
    average_frames,
    frame_tokens_first,
    one_per_frame,
    split_frames,
)
from mmvidformer.layers.inputs import EncoderInput
from mmvidformer.layers.kernels import KERNELS
from mmvidformer.layers.norm import NORMS
from mmvidformer.layers.patterns import PATTERNS
from mmvidformer.layers.tokens import Context, Size, Tokens, pool_tokens
from mmvidformer.lookup import look_up


class Encoder(EncoderInput):
    """A transformer encoder on a grid of tokens: class token, positions, blocks and final norm.

    The tokens between the blocks, to which updates are added, have at least the precision of the
    weights, whatever the positions: under autocast they are float32, and the updates are rounded.

    Attributes:
        passes_grid: Whether the places are read by others.

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
        refuse_tokens(self.conflicts, clips.kept, clips.counts)
        shape = (tokens.tensor.shape[0], *clips.grid.size)
        if clips.counts is not None and clips.counts.shape != shape:
            got = tuple(clips.counts.shape)
            raise UserError(f"counts must be (B, T, H, W) = {shape}, as the tokens, got {got}")
        if self.single_frames:
            tokens = split_frames(tokens)
        size = tokens.context.grid.size
        tensor, context = self.start(tokens)
        for block in self.blocks:
            tensor = block(tensor, context)
            if outputs is not None:
                outputs.append(self._as_output(tensor, context, size))
        if self.frames == "together":
            return Tokens(self.norm(tensor), clips._replace(grid=context.grid))
        return self._join_frames(tensor, context, clips)

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

    def _as_output(self, tensor: Tensor, context: Context, size: Size) -> Tokens:
        tokens = Tokens(tensor, context)
        return tokens if self.frame_token is None else frame_tokens_first(tokens, size)

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

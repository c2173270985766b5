"""Rotary positions: queries and keys are turned by angles of the token's place."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.eager import compute_once
from mmvidformer.layers.sines import angle_options, join_axes, repeat_along
from mmvidformer.layers.tokens import Context, Size
from mmvidformer.lookup import Registry, look_up


class RotaryPositions(nn.Module, ABC):
    """What others read of rotary positions.

    Built with ``head_dim``, the width d of a head, and its own options.

    Attributes:
        axes: Axes of the grid whose places turn a token, of the letters t, h, w.
        causal: Whether no place depends on the number of later frames.
    """

    axes = "thw"
    causal = True

    @abstractmethod
    def table(self, size: Size, like: Tensor, start: Tensor | int = 0) -> Tensor:
        """Return numbers (1, T, H, W, any) for a grid (T, H, W) from frame ``start`` on.

        They are on the device of ``like``, a tensor of the type of the tokens. Those of a class
        token are ones and zeros, a half of the width each.
        """

    @abstractmethod
    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, context: Context
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Turn queries and keys (B, P + T H W, n, d) by ``context.rope``, the table."""


class RotaryEmbedding(RotaryPositions):
    """Turn pairs of channels of queries and keys by angles of the place (Su et al. 2021, RoPE).

    Each axis has an even number c of the channels of a head, one axis after the other; the rest is
    not turned. Pair i of an axis turns by ``place * base ** (-2 i / c)``. Class tokens and
    registers have no place and are not turned. There are no parameters.

    Args:
        head_dim: Width d of a head.
        axes: Axes of the grid, of the letters t, h, w, in the order of their channels.
        base: See above.
        pairs: Which channels are a pair. ``'adjacent'``: 2i and 2i + 1 (RoFormer, EVA-02).
            ``'halves'``: i and i + R / 2 of the R channels of all axes (DINOv3). ``'tiled'``: as
            adjacent, but channel j of an axis takes the angle of pair ``j % (c / 2)``. This is what
            the weights of V-JEPA 2 were trained with; it is no rotation, and depends on more than
            the distance of two tokens. ``'tiled_whole'``: likewise, over the channels of all axes
            (OneVision-Encoder).
        places: Places along height and width; those in time are 0, 1, 2, ... ``'integer'``:
            likewise. ``'centered'``: from -1 to 1, half a token from either end, times 2 pi
            (DINOv3). A number n: ``n i / H`` and ``n i / W`` (EVA-02: 16, the grid of its
            pretraining).
        offset: Number that is added to the places along height and width, before they are
            stretched (Perception Encoder, 1).
        shares: Shares of the axes in the channels. Default: equal ones.
        span: Number of frames over which those of a clip are spread, from the first to the last,
            rounded down (OneVision-Encoder, 64). None: frames are 0, 1, 2, ... apart.
        align_corners: Whether n places end at 0 and n - 1: ``(n - 1) i / (H - 1)``, likewise along
            the width (V-JEPA 2.1, n = 16).

    Raises:
        KeyError: If ``pairs`` is unknown.
        UserError: If ``axes`` or ``places`` is none of these, or a head too narrow for a pair of
            each axis, or its width odd, or ``shares`` are not one of each axis.
    """

    def __init__(
        self,
        head_dim: int,
        axes: str = "thw",
        base: float = 10000.0,
        pairs: str = "adjacent",
        places: str | float = "integer",
        align_corners: bool = False,
        offset: float = 0.0,
        shares: Sequence[int] = (),
        span: int | None = None,
    ) -> None:
        super().__init__()
        if not axes or not {*axes} <= {*"thw"} or len({*axes}) < len(axes):
            raise UserError(f"axes of rotary positions must be some of 'thw', got {axes!r}")
        if isinstance(places, str) and places not in ("integer", "centered"):
            raise UserError(
                f"places must be 'integer', 'centered' or a number of tokens, got {places!r}"
            )
        if align_corners and isinstance(places, str):
            raise UserError(f"align_corners needs a number of places, got places={places!r}")
        shares = tuple(shares) or (1,) * len(axes)
        if len(shares) != len(axes):
            raise UserError(f"shares must be {len(axes)} numbers, one of each axis, got {shares}")
        unit = head_dim // (2 * sum(shares))
        self.counts = tuple(unit * share for share in shares)  # pairs of each axis
        self.span, self.causal = span, span is None
        if not all(self.counts) or head_dim % 2:
            raise UserError(
                f"rotary positions along {axes!r} need heads of an even width of at least "
                f"{2 * sum(shares)}, got {head_dim}"
            )
        self.head_dim, self.axes, self.base, self.places = head_dim, axes, base, places
        self.align_corners, self.offset = align_corners, offset
        kinds = {"adjacent", "halves", "tiled", "tiled_whole"}
        self.pairs = look_up(kinds, pairs, "kind of pairs")

    def table(self, size: Size, like: Tensor, start: Tensor | int = 0) -> Tensor:
        """Return cosines and sines (1, T, H, W, 2 d) for a grid (T, H, W) from a frame on.

        They have the precision of ``like``, at least float32.
        """
        dtype = torch.promote_types(like.dtype, torch.float32)
        return compute_once(self._build_table, like, size, start, dtype, like.device)

    def _build_table(
        self, size: Size, start: Tensor | int, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        options = angle_options(device, dtype, start)
        parts = []
        for axis, count in zip(self.axes, self.counts, strict=True):
            rates = self.base ** -(torch.arange(count, **options) / count)
            length = size["thw".index(axis)]
            places = torch.arange(length, **options)
            if axis == "t" and self.span is not None:
                places = (places * (self.span - 1) / max(length - 1, 1)).floor()
            elif axis == "t":
                places = places + (start.to(places) if isinstance(start, Tensor) else start)
            elif self.places == "centered":
                places = 2 * torch.pi * ((2 * places + 1) / length - 1)
            elif self.places != "integer":
                end = float(self.places)
                if self.align_corners:
                    end, length = end - 1, max(length - 1, 1)
                places = (places + self.offset) * (end / length)
            parts.append(repeat_along(axis, places[..., None] * rates, size))
        if self.pairs == "tiled":
            parts = [part for part in parts for _ in range(2)]
        twice = self.pairs in ("halves", "tiled_whole")
        angles = join_axes(parts * 2 if twice else parts)
        if self.pairs == "adjacent":
            angles = angles.repeat_interleave(2, dim=-1)
        angles = F.pad(angles, (0, self.head_dim - angles.shape[-1]))
        waves = torch.cat([angles.cos(), angles.sin()], dim=-1)
        return waves.to(device=device, dtype=dtype)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, context: Context
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Turn queries and keys (B, P + T H W, n, d); values pass unchanged.

        They are turned in the precision of the table, and then rounded to their own, as in timm.
        The table is that of the context or, if it has none, that of a whole clip.
        """
        table = context.rope
        if table is None:
            table = with_prefix(self.table(context.grid.size, q), context.grid.prefix)
        cos, sin = table[..., None, :].chunk(2, dim=-1)
        return self._turn(q, cos, sin), self._turn(k, cos, sin), v

    def _turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return (x * cos + self._partners(x) * sin).to(x.dtype)

    def _partners(self, x: Tensor) -> Tensor:
        """Return the other channel of each pair, the first ones negated."""
        if self.pairs == "halves":
            half = sum(self.counts)
            first, second, unturned = x.split([half, half, self.head_dim - 2 * half], dim=-1)
            return torch.cat([-second, first, unturned], dim=-1)
        first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([-second, first], dim=-1).flatten(-2)

    def extra_repr(self) -> str:
        """Show the settings in the printed model."""
        parts = f"{self.axes}, base={self.base:g}, pairs={self.pairs}, places={self.places}"
        return f"{parts}, align_corners" if self.align_corners else parts


def with_prefix(table: Tensor, prefix: int) -> Tensor:
    """Map a table (B, T, H, W, 2 d) to that of tokens, (B, P + T H W, 2 d)."""
    table = table.flatten(1, 3)
    if not prefix:
        return table
    cos, sin = table.chunk(2, dim=-1)
    cos, sin = F.pad(cos, (0, 0, prefix, 0), value=1.0), F.pad(sin, (0, 0, prefix, 0))
    return torch.cat([cos, sin], dim=-1)


ROPES: Registry[RotaryPositions] = Registry(
    "rotary positions",
    {
        "axial": RotaryEmbedding,
        "vjepa2": partial(RotaryEmbedding, pairs="tiled"),
        "vjepa2_1": partial(RotaryEmbedding, places=16, align_corners=True),
        "dinov3": partial(
            RotaryEmbedding, axes="hw", base=100.0, pairs="halves", places="centered"
        ),
        "eva02": partial(RotaryEmbedding, axes="hw", places=16),
        # Its authors write 4:6:6.
        "onevision": partial(RotaryEmbedding, pairs="tiled_whole", shares=(2, 3, 3), span=64),
    },
    RotaryPositions,
)

"""Neighborhood association: keys and values take channels of neighboring tokens.

===============  ==============================================================  ==============
type             channels D of a key or value, one head after another            source
===============  ==============================================================  ==============
temporal         D/divisor from the next frame, D/divisor from the previous one  official code
spatial          8 folds of D/16 from the 8 neighbors                            official code
temporal_window  after the first alpha D: equal folds from frames -tau ... tau   paper, A.3
spatial_cross    the same from xi places left, right, above and below            paper, A.3
spatial_square   the same from all other places of a square of radius xi         paper, table 11
===============  ==============================================================  ==============
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.eager import runs_eagerly
from mmvidformer.lookup import Registry

Offset = tuple[int, int, int]  # frames, rows and columns


class Shift(nn.Module):
    """Shift folds of the channels of keys and values along the grid; queries pass unchanged.

    A shift has no parameters and takes a grid of any size. Channels that do not fill a fold are not
    shifted. If D is too small for one channel per fold, nothing is shifted (``build_shift`` warns).

    Args:
        offsets: Offset from a token to the source of each fold, in the order of the channels.
        share: Size of a fold as a fraction of all channels D, rounded down.
        first: Fraction of D before the first fold, which is not shifted.
        segment: Number of frames of a segment; nothing is shifted between segments. None, or more
            than there are frames: the whole clip.
        zeros: Number of first folds that get zeros where there is no source, at a border. The
            others keep their own channels there. Default: all.
    """

    def __init__(
        self,
        offsets: Sequence[Offset],
        share: Fraction,
        first: Fraction = Fraction(0),
        segment: int | None = None,
        zeros: int | None = None,
    ) -> None:
        super().__init__()
        self.offsets = tuple(offsets)
        self.zeros = len(offsets) if zeros is None else zeros
        self.share = share
        self.first = first
        self._share, self._first = share.as_integer_ratio(), first.as_integer_ratio()
        self.segment = segment

    @property
    def frames(self) -> set[int]:
        """From which frames channels come, 0 for that of the token."""
        return {frames for frames, _, _ in self.offsets}

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Shift keys and values, (B, T, H, W, n, d) each.

        Raises:
            UserError: If T is not a multiple of the segment.
        """
        return q, self.shift(k), self.shift(v)

    def shift(self, x: Tensor) -> Tensor:
        """Shift a tensor (B, T, H, W, ..., n, d); raises as ``forward`` does."""
        channels = x.flatten(-2)  # (B, T, H, W, ..., D)
        frames = channels.shape[1]
        if self.segment is not None and self.segment < frames:
            if frames % self.segment:
                raise UserError(f"{frames} frames cannot be split into segments of {self.segment}")
            channels = torch.unflatten(channels, 1, (-1, self.segment)).flatten(0, 1)
        with_gradients = torch.is_grad_enabled() and runs_eagerly()
        shift = ShiftChannels.apply if with_gradients else shift_channels
        return shift(channels, *self.folds(channels.shape[-1])).reshape(x.shape)

    def folds(self, dim: int) -> tuple[slice, tuple[Offset, ...], int]:
        """Return the arguments of ``shift_channels`` for D channels."""
        size, start = dim * self._share[0] // self._share[1], dim * self._first[0] // self._first[1]
        return slice(start, start + size * len(self.offsets)), self.offsets, self.zeros

    def extra_repr(self) -> str:
        """Show the settings in the printed model."""
        return f"{len(self.offsets)} folds of {self.share}, segment={self.segment}"


def shift_channels(x: Tensor, channels: slice, offsets: Sequence[Offset], zeros: int) -> Tensor:
    """Shift channels of x (B, T, H, W, ..., D), a fold of them by each offset.

    The first ``zeros`` folds become zero where there is no source, the others stay.
    """
    out = x.clone(memory_format=torch.contiguous_format)
    targets, sources = _folds(out, channels, len(offsets)), _folds(x, channels, len(offsets))
    targets[..., :zeros, :].zero_()
    for target, source in _moves(targets, sources, offsets):
        target.copy_(source)
    return out


class ShiftChannels(torch.autograd.Function):
    """``shift_channels`` with a backward pass of few operators.

    Autograd's own copies the whole gradient for each fold.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, channels: slice, offsets: Sequence[Offset], zeros: int
    ) -> Tensor:
        """Shift; no tensor is kept for the backward pass."""
        ctx.folds = channels, offsets, zeros
        return shift_channels(x, channels, offsets, zeros)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """Bring the gradient of each token to its source."""
        channels, offsets, zeros = ctx.folds
        grad_x = grad.clone(memory_format=torch.contiguous_format)
        targets, sources = (
            _folds(grad, channels, len(offsets)),
            _folds(grad_x, channels, len(offsets)),
        )
        sources[..., :zeros, :].zero_()
        # Of the other folds, only tokens without a source keep their gradient.
        for target, _ in _moves(sources[..., zeros:, :], sources, offsets[zeros:]):
            target.zero_()
        for target, source in _moves(targets, sources, offsets):
            source.add_(target)
        return grad_x, None, None, None


def _folds(x: Tensor, channels: slice, count: int) -> Tensor:
    """Return a view (B, T, H, W, ..., count, fold) of channels of x (B, T, H, W, ..., D)."""
    return torch.unflatten(x[..., channels], -1, (count, -1))


def _moves(
    targets: Tensor, sources: Tensor, offsets: Sequence[Offset]
) -> list[tuple[Tensor, Tensor]]:
    """Return, for each fold, views of the tokens that have a source on the grid, and of these."""
    moves = []
    for fold, offset in enumerate(offsets):
        target, source = targets.select(-2, fold), sources.select(-2, fold)
        for axis, step in enumerate(offset, start=1):
            if step:
                size = targets.shape[axis]
                length = max(size - abs(step), 0)
                target = target.narrow(axis, min(max(-step, 0), size), length)
                source = source.narrow(axis, min(max(step, 0), size), length)
        moves.append((target, source))
    return moves


def _check_at_least(least: int, value: int, name: str) -> None:
    if value < least:
        raise UserError(f"{name} of a shift must be at least {least}, got {value}")


def temporal_shift(divisor: int = 4, segment: int | None = None) -> Shift:
    """Build the temporal shift of the official code (TSM, Lin et al. 2019), with zeros at the ends.

    Args:
        divisor: At least 2; D / ``divisor`` channels come from each side. 4 for
            Something-Something, 8 for Kinetics: the paper's "temporal shift 4/8" (table 10).
        segment: Number of frames of a segment. The released Kinetics settings have segments of 8
            for clips of 16.
    """
    _check_at_least(2, divisor, "divisor")
    return Shift([(1, 0, 0), (-1, 0, 0)], Fraction(1, divisor), segment=segment)


# Further places that the official code reads at distance 2, in its order: those a knight's move
# away, and the direct neighbors.
_KNIGHT = [(-2, -1), (-2, 1), (-1, -2), (1, -2), (2, -1), (2, 1), (-1, 2), (1, 2)]
_RING = [(1, 0), (-1, 0), (0, 1), (0, -1), (-1, -1), (1, 1), (-1, 1), (1, -1)]


def spatial_shift(distance: int = 1) -> Shift:
    """Build the spatial shift of the official code.

    Four folds come from along rows and columns, with zeros at the border, and four from along the
    diagonals, which keep their own channels there. A fold has
    ``D / 2 / ((2 distance + 1)^2 - 1)`` channels, as if all places of the square were read; they
    are only at distances 1 and 2.

    Args:
        distance: Distance of the sources in places; at least 1. The released settings have 1.
    """
    s = distance
    _check_at_least(1, s, "distance")
    places = [(s, 0), (-s, 0), (0, s), (0, -s), (-s, -s), (s, s), (-s, s), (s, -s)]
    places += [*_KNIGHT, *_RING] if s == 2 else []
    offsets = [(0, *place) for place in places]
    return Shift(offsets, Fraction(1, 2 * ((2 * s + 1) ** 2 - 1)), zeros=4)


# The paper's shifts: sources for a radius. The order of the folds is not published; here it is the
# earliest frame first; left, right, above, below, the nearest first; and row by row.
WINDOWS: dict[str, Callable[[int], list[Offset]]] = {
    "temporal_window": lambda r: [(t, 0, 0) for t in range(-r, r + 1) if t],
    "spatial_cross": lambda r: [
        (0, n * y, n * x) for y, x in [(0, -1), (0, 1), (-1, 0), (1, 0)] for n in range(1, r + 1)
    ],
    "spatial_square": lambda r: [
        (0, y, x) for y in range(-r, r + 1) for x in range(-r, r + 1) if (y, x) != (0, 0)
    ],
}


def window_shift(window: str, radius: int = 1, alpha: float = 0.5) -> Shift:
    """Build a shift of the paper (A.3, table 11), with zeros at the border.

    Args:
        window: A name in ``WINDOWS``.
        radius: The paper's tau or xi: number of frames or places in each direction, at least 1.
        alpha: Fraction of the channels that is not shifted, in [0, 1).
    """
    _check_at_least(1, radius, "radius")
    if not 0 <= alpha < 1:
        raise UserError(f"alpha of a shift must be in [0, 1), got {alpha}")
    offsets = WINDOWS[window](radius)
    first = Fraction(alpha).limit_denominator(1000)
    return Shift(offsets, (1 - first) / len(offsets), first)


SHIFTS: Registry[Shift] = Registry(
    "shift",
    {
        "temporal": temporal_shift,
        "spatial": spatial_shift,
        **{name: partial(window_shift, name) for name in WINDOWS},
    },
    Shift,
)


def build_shift(shift: str | Mapping, dim: int | None = None) -> Shift:
    """Build a shift.

    Args:
        shift: A name in ``SHIFTS``, or a dictionary with the name as ``type`` and options.
        dim: Number of channels D of keys and values. If given, a warning is issued if they are too
            few for the folds.

    Raises:
        KeyError: If there is no such shift; the message lists the names.
        UserError: If an option is unknown or out of range.
    """
    built = SHIFTS.build(shift)
    if dim is not None and not int(dim * built.share):
        # The official code does not warn, and its results are those without a shift.
        warnings.warn(
            f"{dim} channels are too few for folds of {built.share} of them (shift {shift!r}): "
            "nothing is shifted",
            stacklevel=2,
        )
    return built

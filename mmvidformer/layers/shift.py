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

import torch
from torch import Tensor, nn

from mmvidformer.layers.lookup import Registry

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
        self.segment = segment

    @property
    def frame_block(self) -> int | None:
        """See ``Pattern.frame_block``."""
        return self.segment if any(frames for frames, _, _ in self.offsets) else 1

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Shift keys and values, (B, T, H, W, n, d) each.

        Raises:
            ValueError: If T is not a multiple of the segment.
        """
        return q, self.shift(k), self.shift(v)

    def shift(self, x: Tensor) -> Tensor:
        """Shift a tensor (B, T, H, W, n, d); raises as ``forward`` does."""
        channels = x.flatten(-2)
        dim, frames = channels.shape[-1], channels.shape[1]
        fold, start = (dim * x.numerator // x.denominator for x in (self.share, self.first))
        segment = min(self.segment or frames, frames)
        if frames % segment:
            raise ValueError(f"{frames} frames cannot be split into segments of {segment}")
        channels = channels.unflatten(1, (-1, segment)).flatten(0, 1)
        rest = dim - start - fold * len(self.offsets)
        kept, *folds, last = channels.split([start, *[fold] * len(self.offsets), rest], dim=-1)
        moved = [
            _moved(part, offset, torch.zeros_like(part) if i < self.zeros else part.clone())
            for i, (part, offset) in enumerate(zip(folds, self.offsets, strict=True))
        ]
        return torch.cat([kept, *moved, last], dim=-1).reshape(x.shape)

    def extra_repr(self) -> str:
        """Show the settings in the printed model."""
        return f"{len(self.offsets)} folds of {self.share}, segment={self.segment}"


def _moved(x: Tensor, offset: Offset, out: Tensor) -> Tensor:
    """Take channels (B, T, H, W, fold) from their source, and those of ``out`` without one."""
    target, source = [slice(None)], [slice(None)]
    for size, places in zip(x.shape[1:4], offset, strict=True):
        inside = max(size - abs(places), 0)
        target.append(slice(max(-places, 0), max(-places, 0) + inside))
        source.append(slice(max(places, 0), max(places, 0) + inside))
    out[tuple(target)] = x[tuple(source)]
    return out


def _check_at_least(least: int, value: int, name: str) -> None:
    if value < least:
        raise ValueError(f"{name} of a shift must be at least {least}, got {value}")


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
        raise ValueError(f"alpha of a shift must be in [0, 1), got {alpha}")
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
)


def build_shift(shift: str | Mapping, dim: int | None = None) -> Shift:
    """Build a shift.

    Args:
        shift: A name in ``SHIFTS``, or a dictionary with the name as ``type`` and options.
        dim: Number of channels D of keys and values. If given, a warning is issued if they are too
            few for the folds.

    Raises:
        KeyError: If there is no such shift; the message lists the names.
        ValueError: If an option is unknown or out of range.
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

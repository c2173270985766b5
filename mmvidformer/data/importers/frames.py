"""Boxes that tools draw at some frames, in pixels or percent."""

from collections.abc import Sequence

Corners = tuple[float, ...]  # left, top, right and bottom
COLUMNS = ("x1", "y1", "x2", "y2")
DIGITS = 6  # of shares of the frame


def interpolate(first: Corners, last: Corners, share: float) -> Corners:
    """Return the box at a share of the way from one to another."""
    pairs = zip(first, last, strict=True)
    return tuple(start + share * (end - start) for start, end in pairs)


def box_row(corners: Corners, size: Sequence[float]) -> dict[str, str] | None:
    """Return the columns of a box, as shares of the frame; None if it is outside of the frame.

    Args:
        corners: Left, top, right and bottom.
        size: Width and height of the frame, in the same unit.
    """
    limits = (*size, *size)
    shares = [
        round(min(max(corner / limit, 0), 1), DIGITS)
        for corner, limit in zip(corners, limits, strict=True)
    ]
    if not (shares[0] < shares[2] and shares[1] < shares[3]):
        return None
    return {name: f"{share:g}" for name, share in zip(COLUMNS, shares, strict=True)}

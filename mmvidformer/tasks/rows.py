"""The row of a prediction: what all outputs write, with the same names and digits."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mmvidformer.storage.names import spell

Best = tuple[int, str, float]  # number, name and probability of a class
WHERE = ("video", "start", "end")  # the first columns of all tasks
CORNERS = ("x1", "y1", "x2", "y2")  # left, top, right and bottom, as AVA calls them


def place_cells(
    source: str | None,
    seconds: tuple[float, float] | None,
    track: int | None,
    box: Sequence[float] | None,
    ahead: float | None,
    shot: int | None,
) -> dict[str, Any]:
    """Return where a prediction is; arguments are attributes of ``Prediction``."""
    start, end = seconds or (None, None)
    cells: dict[str, Any] = {
        "video": None if source is None else spell(source),
        "start": round_number(start, 3),
        "end": round_number(end, 3),
    }
    if track is not None:
        cells["track"] = track
    if box:
        corners = [round_number(share, 4) for share in box]
        cells |= dict(zip(CORNERS, corners, strict=True))
    if ahead is not None:
        cells["ahead"] = round_number(ahead, 3)
    if shot is not None:
        cells["shot"] = shot
    return cells


def class_cells(best_of: Mapping[str, Sequence[Best]], has_top: bool) -> dict[str, Any]:
    """Return the most likely class and its score by output, and with ``has_top`` all of them.

    Args:
        best_of: Number, name and probability of the best classes, by output of the head.
        has_top: Whether to nest a list of the classes.
    """
    cells: dict[str, Any] = {}
    is_single = len(best_of) == 1
    for output, best in best_of.items():
        top = [{"label": label, "score": round_number(score, 6)} for _, label, score in best]
        cells["label" if is_single else output] = top[0]["label"]
        cells["score" if is_single else f"{output}_score"] = top[0]["score"]
        if has_top:
            cells["top" if is_single else f"{output}_top"] = top
    return cells


def value_cells(values: Mapping[str, float]) -> dict[str, float | None]:
    """Return values by name, with 6 significant digits."""
    return {
        name: float(f"{value:.6g}") if math.isfinite(value) else None
        for name, value in values.items()
    }


def round_number(number: float | None, digits: int) -> float | None:
    """Round a number; None stands for what is no number, which JSON does not have."""
    return None if number is None or not math.isfinite(number) else round(float(number), digits)

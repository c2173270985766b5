"""The row of a prediction: what all outputs write, with the same names and digits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mmvidformer.storage.names import spell

if TYPE_CHECKING:
    from mmvidformer.tasks.prediction import Prediction

WHERE = ("video", "start", "end")  # the first columns of all tasks
CORNERS = ("x1", "y1", "x2", "y2")  # left, top, right and bottom, as AVA calls them


def row_of(prediction: Prediction, k: int | None = None) -> dict[str, Any]:
    """Return the row of a prediction; see ``Prediction.row``."""
    start, end = prediction.seconds or (None, None)
    row: dict[str, Any] = {
        "video": None if prediction.source is None else spell(prediction.source),
        "start": round_number(start, 3),
        "end": round_number(end, 3),
    }
    if prediction.box:
        corners = [round_number(share, 4) for share in prediction.box]
        row |= dict(zip(CORNERS, corners, strict=True))
    if prediction.ahead is not None:
        row["ahead"] = round_number(prediction.ahead, 3)
    if prediction.shot is not None:
        row["shot"] = prediction.shot
    if prediction.static is not None:
        row["static"] = prediction.static
    return row | prediction.task.cells(prediction, k)


def class_cells(prediction: Prediction, k: int | None) -> dict[str, Any]:
    """Return the most likely class and its score by output, and with ``k`` the best classes."""
    cells: dict[str, Any] = {}
    is_single = len(prediction.scores) == 1
    for output in prediction.scores:
        best = [
            {"label": label, "score": round_number(score, 6)}
            for _, label, score in prediction.top(k or 1, output)
        ]
        cells["label" if is_single else output] = best[0]["label"]
        cells["score" if is_single else f"{output}_score"] = best[0]["score"]
        if k is not None:
            cells["top" if is_single else f"{output}_top"] = best
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

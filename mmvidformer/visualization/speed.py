"""A picture of how fast variants of a model are, and of what they cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from mmvidformer.sinks.figures import without_formulas


def draw_speed(rows: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """Draw a bar for the time of each variant, with how its answers differ.

    Args:
        rows: As ``apis.speed.Variant.row`` returns them. Those that did not run are left out.
        title: Title.
    """
    timed = [row for row in rows if "seconds" in row][::-1]  # the first at the top
    figure = Figure(figsize=(8, 1 + 0.5 * len(timed)), dpi=120, layout="constrained")
    axes = figure.add_subplot(title=title, xlabel="milliseconds a clip")
    milliseconds = [1000 * row["seconds"] for row in timed]
    bars = axes.barh([row["name"] for row in timed], milliseconds, color="tab:blue")
    first = milliseconds[-1]
    texts = []
    for row, value in zip(timed, milliseconds, strict=True):
        changed = (
            f", {row['changed']} of {row['answers']} answers changed" if row["answers"] else ""
        )
        size = row["weight_bytes"] / 2**20
        texts.append(f"{first / value:.2g} x, {size:.0f} MiB{changed}")
    axes.bar_label(bars, texts, padding=4, fontsize=8)
    axes.set_xlim(0, 1.8 * max(milliseconds))
    return without_formulas(figure)

"""Attention schemes as cubes: which tokens a token attends to in each sub-layer of a block.

What a token sees is computed by the models themselves (``receptive_field``).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.pictures.svg import Drawing, Point
from lab.receptive_field import receptive_field
from mmvidformer.layers import SubLayer
from mmvidformer.layers.config import name_of
from mmvidformer.models import VideoTransformer, timesformer, vivit

GRID = (3, 6, 6)
TOKEN = (1, 3, 2)
SIDE = 15  # of a token, in pixels
PANEL = (3 * 72 + 34, 190)
COLORS = ("blue", "orange", "green")
SLANT = f"matrix({0.62 * SIDE:.2f} {-0.3 * SIDE:.2f} 0 {SIDE} "  # of a frame; its place follows
SMALL: dict[str, Any] = dict(
    arch=dict(embed_dims=24, depth=1, num_heads=2),
    stem=dict(tubelet=(1, 8, 8)),
    clip_len=GRID[0],
    img_size=8 * GRID[1],
)


class Panel(NamedTuple):
    """A scheme: lines of a title, and by the name of each pattern the tokens (T, H, W) it sees."""

    title: Sequence[str]
    fields: Mapping[str, Tensor]
    encoders: int = 1


def panels_of(schemes: Mapping[tuple[str, ...], Mapping[str, Any]]) -> list[Panel]:
    """Return the panels of schemes, by title."""
    panels = []
    for title, scheme in schemes.items():
        fields: dict[str, Tensor] = {}
        for sublayer in scheme["block"]:
            for pattern in sublayer.patterns:
                alone = "frames" in scheme or "encoders" in scheme
                name_seen = "space" if alone else str(name_of(pattern))
                fields[name_seen] = seen_by("space" if alone else pattern, sublayer.cls)
        panels.append(Panel(title, fields, 1 + ("encoders" in scheme)))
    return panels


def seen_by(pattern: Any, policy: str | None) -> Tensor:
    """Return which tokens (T, H, W) a token attends to in one sub-layer."""
    cls = "global" if policy == "global" else None  # with others, patterns are the same without it
    block = (SubLayer(pattern, cls=cls),)
    model = VideoTransformer(block=block, cls=cls, pool="none", positions="none", **SMALL)
    return receptive_field(model, GRID, TOKEN)[0].tokens


def squares(tokens: Tensor, inset: float) -> str:
    """Return a path of a square for each token (H, W) that is true."""
    side = 0.92 - 2 * inset
    corners = tokens.nonzero().tolist()
    return "".join(f"M{w + inset:g} {h + inset:g}h{side:g}v{side:g}h-{side:g}z" for h, w in corners)


def has_overlap(panel: Panel) -> bool:
    """Return whether two patterns see the same token, besides the one that attends."""
    count = torch.stack([*panel.fields.values()]).sum(0)
    count[TOKEN] = 0
    return bool((count > 1).any())


def draw_panel(drawing: Drawing, panel: Panel, corner: Point) -> None:
    """Draw the frames of a scheme side by side, slanted, with a legend below them."""
    left, top = corner
    for number, line in enumerate(panel.title):
        place = (left + PANEL[0] / 2 - 12, top + 10 + 15 * number)
        drawing.text(place, line, "small" if number else "bold")
    for frame in range(GRID[0]):
        x, y = left + 12 + 72 * frame, top + 58
        slant = f"{SLANT}{x} {y})"
        fields = [field[frame] for field in panel.fields.values()]
        drawing.path(squares(~torch.stack(fields).any(0), 0), "unseen", slant)
        seen = torch.zeros_like(fields[0])
        for color, field in zip(COLORS, fields, strict=False):
            drawing.path(squares(field & ~seen, 0), f"{color}-solid", slant)
            drawing.path(squares(field & seen, 0.25), f"{color}-solid", slant)
            seen = seen | field
        if frame == TOKEN[0]:
            drawing.path("M{2} {1}h.92v.92h-.92z".format(*TOKEN), "query", slant)
    x = left + 14
    for color, name in zip(COLORS, panel.fields, strict=False):
        text = name if panel.encoders == 1 else "first encoder"
        drawing.path(f"M{x} {top + 160}h10v10h-10z", f"{color}-solid")
        drawing.text((x + 15, top + 165), text, "small", "start")
        x += 30 + 6.4 * len(text)
    if has_overlap(panel):
        drawing.path(f"M{x} {top + 160}h10v10h-10z", f"{COLORS[0]}-solid")
        drawing.path(f"M{x + 2.5} {top + 162.5}h5v5h-5z", f"{COLORS[1]}-solid")
        drawing.text((x + 15, top + 165), "both", "small", "start")
    if panel.encoders == 2:
        drawing.path(f"M{x} {top + 160}h10v10h-10z", "orange-solid")
        drawing.text((x + 15, top + 165), "second encoder", "small", "start")
        for frame in range(GRID[0]):
            drawing.path(f"M{left + 48 + 72 * frame} {top + 144}h9v9h-9z", "orange-solid")
        drawing.line([(left + 52, top + 148), (left + 196, top + 148)], "thin")


def draw(title: str, panels: Sequence[Panel], columns: int) -> Drawing:
    """Draw panels in rows."""
    rows = -(-len(panels) // columns)
    drawing = Drawing(20 + PANEL[0] * columns, 10 + PANEL[1] * rows, title)
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        draw_panel(drawing, panel, (10 + PANEL[0] * column, 5 + PANEL[1] * row))
    return drawing


def draw_timesformer() -> Drawing:
    """Draw the five schemes of TimeSformer."""
    title = "Tokens that the red token attends to, in three frames, for TimeSformer's schemes"
    schemes = {(name,): scheme for name, scheme in timesformer.SCHEMES.items()}
    return draw(title, panels_of(schemes), 3)


def draw_vivit() -> Drawing:
    """Draw the four models of ViViT."""
    title = "Tokens that the red token attends to, in three frames, for ViViT's models 1 to 4"
    names = ("spacetime", "factorized_encoder", "factorized_self_attention")
    names = (*names, "factorized_dot_product")
    schemes = {
        (f"model {number}", name): vivit.SCHEMES[name] for number, name in enumerate(names, 1)
    }
    return draw(title, panels_of(schemes), 2)

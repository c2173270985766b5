"""A drawing in SVG: boxes, arrows and texts, legible on light and dark pages.

Colors are names of classes. A drawing brings its own background, so it stays legible where the page
has other colors than the system that the reader has chosen.
"""

from collections.abc import Sequence
from xml.sax.saxutils import escape

Point = tuple[float, float]

# Color: fill and stroke on a light page, fill and stroke on a dark page.
COLORS = {
    "gray": ("#eef0f3", "#99a2ae", "#2c323b", "#77818d"),
    "blue": ("#dbe8f6", "#2f6fab", "#1d3a57", "#6fb0ea"),
    "orange": ("#fde6cf", "#d9751e", "#553512", "#f0a35c"),
    "green": ("#dcefdd", "#3f8f4f", "#1e4427", "#7cc98b"),
    "violet": ("#e9e1f4", "#7a55a8", "#3b2c52", "#b798e0"),
}
STYLE = """\
.card{{fill:{card};stroke:{edge}}}
text{{font-family:'DejaVu Sans',Verdana,sans-serif;font-size:13px;fill:{text}}}
.small{{font-size:11px}}
.bold{{font-weight:bold}}
.line{{fill:none;stroke:{line};stroke-width:1.6}}
.tip{{fill:{line}}}
.thin{{fill:none;stroke:{line};stroke-width:1}}
.query{{fill:{query}}}
.unseen{{fill:{unseen}}}
"""
# Color of what is no box: on a light page, on a dark page.
PAGE = {
    "card": ("#ffffff", "#1e2129"),
    "edge": ("#d5d9e0", "#3a414c"),
    "text": ("#1f2733", "#e6e9ee"),
    "line": ("#5b6573", "#a8b1bd"),
    "unseen": ("#e3e6ea", "#363c46"),
    "query": ("#d6294a", "#ff6b81"),
}


class Drawing:
    """A drawing of ``width`` x ``height`` pixels.

    Args:
        width: Width.
        height: Height.
        title: What is to be seen, for readers who do not see it.
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width = width
        self.height = height
        self.title = title
        self.parts: list[str] = []

    def text(self, place: Point, text: str, classes: str = "", anchor: str = "middle") -> None:
        """Write a line of text; ``place`` is the middle of its height."""
        x, y = place
        attributes = f'x="{x:g}" y="{y + 4.5:g}" text-anchor="{anchor}"'
        name = f' class="{classes}"' if classes else ""
        self.parts.append(f"<text {attributes}{name}>{escape(text)}</text>")

    def box(
        self, corner: Point, size: Point, lines: Sequence[str] = (), color: str = "gray"
    ) -> None:
        """Draw a box with lines of text in its middle, the first of them bold."""
        (x, y), (width, height) = corner, size
        shape = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"'
        self.parts.append(f'<rect class="{color}" {shape}/>')
        top = y + height / 2 - 8 * (len(lines) - 1)
        for number, line in enumerate(lines):
            classes = "small" if number else "bold"
            self.text((x + width / 2, top + 16 * number), line, classes)

    def frame(self, corner: Point, size: Point, label: str) -> None:
        """Draw a dashed frame around boxes, with a label at its top."""
        (x, y), (width, height) = corner, size
        shape = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8"'
        self.parts.append(f'<rect class="thin" stroke-dasharray="5 4" {shape}/>')
        self.text((x + width / 2, y + 13), label, "small")

    def line(self, points: Sequence[Point], classes: str = "line", dashed: bool = False) -> None:
        """Draw a line through points."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        self.parts.append(f'<polyline class="{classes}"{dash} points="{path}"/>')

    def arrow(self, points: Sequence[Point], dashed: bool = False) -> None:
        """Draw a line through points with a tip at the last one."""
        (x0, y0), (x1, y1) = points[-2:]
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        dx, dy = (x1 - x0) / length, (y1 - y0) / length
        neck = x1 - 7 * dx, y1 - 7 * dy
        self.line([*points[:-1], neck], dashed=dashed)
        sides = [(neck[0] - 4 * dy, neck[1] + 4 * dx), (neck[0] + 4 * dy, neck[1] - 4 * dx)]
        tip = " ".join(f"{x:.1f},{y:.1f}" for x, y in [(x1, y1), *sides])
        self.parts.append(f'<polygon class="tip" points="{tip}"/>')

    def path(self, path: str, classes: str, transform: str = "") -> None:
        """Add a path, such as many squares at once."""
        move = f' transform="{transform}"' if transform else ""
        self.parts.append(f'<path class="{classes}"{move} d="{path}"/>')

    def render(self) -> str:
        """Return the text of the file."""
        size = f'viewBox="0 0 {self.width:g} {self.height:g}"'
        size += f' width="{self.width:g}" height="{self.height:g}"'
        card = f'width="{self.width - 1:g}" height="{self.height - 1:g}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>\n{style(dark=False)}@media (prefers-color-scheme:dark){{",
                f"{style(dark=True)}}}\n</style>",
                f'<rect class="card" x=".5" y=".5" {card} rx="8"/>',
                *self.parts,
                "</svg>\n",
            ]
        )


def style(dark: bool) -> str:
    """Return the classes of a light page or a dark one."""
    lines = [STYLE.format(**{name: colors[dark] for name, colors in PAGE.items()})]
    for name, row in COLORS.items():
        fill, stroke = row[2:] if dark else row[:2]
        lines.append(f".{name}{{fill:{fill};stroke:{stroke}}}\n.{name}-solid{{fill:{stroke}}}\n")
    return "".join(lines)

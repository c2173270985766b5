"""The subpackages of the package: a room stands above all rooms that it imports.

The rules are those that ``tests/test_architecture.py`` enforces.
"""

import runpy
from collections.abc import Mapping
from pathlib import Path

from benchmarks.pictures.svg import Drawing, Point

RULES = Path(__file__).resolve().parents[2] / "tests" / "test_architecture.py"
# Room: column, color of its group, what it holds.
ROOMS = {
    "layers": (0.8, "blue", "attention, tokens"),
    "models": (1, "blue", "backbones, heads"),
    "storage": (2.4, "orange", "files, buckets"),
    "checkpoints": (1.2, "orange", "weights, formats"),
    "video": (3.05, "orange", "files, cameras"),
    "registry": (0, "violet", "MMAction2 plugin"),
    "repairs": (0, "violet", "of MMAction2"),
    "config": (2, "violet", "configs, rows"),
    "data": (3.05, "violet", "lists, transforms"),
    "engine": (0.5, "violet", "runs, hooks"),
    "tasks": (2.1, "green", "a file for each"),
    "apis": (0.5, "green", "predictions"),
    "export": (1.8, "green", "ONNX, torch.export"),
    "finetune": (1, "green", "your own videos"),
    "sinks": (3.05, "green", "csv, JSON, subtitles"),
    "web": (2.1, "gray", "page in a browser"),
    "cli": (2, "gray", "commands"),
}
GROUPS = (
    ("blue", "networks"),
    ("orange", "files"),
    ("violet", "inside MMAction2"),
    ("green", "answers"),
    ("gray", "around them"),
)
BOX: Point = (136, 42)
COLUMN, FLOOR, TOP = 150, 66, 46

Rules = Mapping[str, set[str]]


def read_rules() -> Rules:
    """Read which rooms each room may import."""
    allowed = runpy.run_path(str(RULES))["ALLOWED"]
    return {room: imports for room, imports in allowed.items() if room != "__main__"}


def floor_of(room: str, rules: Rules) -> int:
    """Return 0 for a room that imports no other, else one more than the highest of these."""
    return max((1 + floor_of(other, rules) for other in rules[room]), default=0)


def direct(room: str, rules: Rules) -> set[str]:
    """Return the imports that follow from no other import of the room."""
    indirect: set[str] = set()
    for other in rules[room]:
        indirect |= rules[other]
    return rules[room] - indirect


def draw() -> Drawing:
    """Draw the rooms floor by floor, and a line to each direct import."""
    rules = read_rules()
    floors = {room: floor_of(room, rules) for room in rules}
    height = TOP + FLOOR * (1 + max(floors.values()))
    drawing = Drawing(776, height, "Subpackages; each may import those that lines lead down to")
    places: dict[str, Point] = {
        room: (20 + COLUMN * column, height - FLOOR * (floors[room] + 1) + 8)
        for room, (column, _, _) in ROOMS.items()
    }
    for room, (x, y) in places.items():
        for other in sorted(direct(room, rules)):
            other_x, other_y = places[other]
            ends = (x + BOX[0] / 2, y + BOX[1]), (other_x + BOX[0] / 2, other_y)
            drawing.line(ends, "thin")
    for room, corner in places.items():
        _, color, text = ROOMS[room]
        drawing.box(corner, BOX, (room, text), color)
    for number, (color, text) in enumerate(GROUPS):
        x = 40 + 146 * number
        drawing.path(f"M{x} 18h12v12h-12z", color)
        drawing.text((x + 18, 24), text, "small", "start")
    return drawing

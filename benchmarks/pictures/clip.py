"""The way of a clip from a file to an answer, with the rooms where each step lives."""

from benchmarks.pictures.svg import Drawing

# Place, label of the row, and its steps: what happens, in which room, what comes out.
ROWS = (
    (
        "on the CPU (without --decode-on-device): in training in workers, in demo in a thread",
        (
            ("open", "video", "seconds of frames"),
            ("sample", "data", "numbers of frames"),
            ("decode", "video", "these frames only"),
            ("resize, crop", "data", "views"),
            ("batch", "data", "B, V, 3, T, H, W"),
        ),
    ),
    (
        "on the device",
        (
            ("normalize", "models", "augment in training"),
            ("encode", "models, layers", "B, T, H, W, D"),
            ("pool", "models", "B, D"),
            ("head", "models", "scores of a view"),
            ("fuse", "models", "mean over views"),
        ),
    ),
    (
        "on the CPU",
        (
            ("predict", "tasks", "classes, boxes, ..."),
            ("join", "apis", "windows of a video"),
            ("print", "tasks", "text, JSON"),
            ("draw, write", "sinks", "video, timeline, csv"),
            ("show", "cli, web", "window, page"),
        ),
    ),
)
COLORS = ("orange", "blue", "green")
STEP, GAP, HEIGHT = 132, 24, 120


def draw() -> Drawing:
    """Draw a row of boxes for each place."""
    drawing = Drawing(806, 4 + HEIGHT * len(ROWS), "Steps of a clip from a file to an answer")
    for number, ((label, steps), color) in enumerate(zip(ROWS, COLORS, strict=True)):
        top = 14 + HEIGHT * number
        drawing.frame((10, top), (786, 96), label)
        for column, (name, room, result) in enumerate(steps):
            x = 20 + (STEP + GAP) * column
            drawing.box((x, top + 24), (STEP, 62), (name, room, result), color)
            if column:
                drawing.arrow([(x - GAP, top + 55), (x - 2, top + 55)])
        if number:
            y = top - 12
            last = 20 + (STEP + GAP) * 4 + STEP / 2
            first = 20 + STEP / 2
            drawing.arrow([(last, y - 22), (last, y), (first, y), (first, top + 22)])
    return drawing

"""The way of a prediction from the head to the outputs, with an example at each step."""

from benchmarks.pictures.svg import Drawing

# What it is, its room or method, an example.
STEPS = (
    ("output of a head", "models", "pred_score: 0.1, 0.9"),
    ("Prediction", "tasks: Task.answers", "scores, names, 0 to 2 s"),
    ("row", "tasks/rows.py", "label: dive, score: 0.9"),
    ("outputs", "sinks/group.py", "append, see, end, close"),
)
# Outputs below: what they take of a prediction, and the names of the options.
OUTPUTS = (
    ("row, as it is", ("--json", "--windows", "label (Parquet)"), "blue"),
    ("rows of segments", ("--csv", "page", "--boris, --elan"), "orange"),
    ("classes of the row", ("lines, --subtitles", "--out, page", "--label-studio, ..."), "green"),
    ("all probabilities", ("--timeline",), "gray"),
)
STEP, GAP = (172, 66), 30
OUTPUT, SPACE = (172, 92), 30


def draw() -> Drawing:
    """Draw the steps in a row, and the outputs below it."""
    drawing = Drawing(798, 226, "Steps of a prediction from the head to the outputs")
    for number, lines in enumerate(STEPS):
        x = 10 + (STEP[0] + GAP) * number
        drawing.box((x, 12), STEP, lines, "orange" if number < 2 else "blue")
        if number:
            drawing.arrow([(x - GAP, 45), (x - 2, 45)])
    last = 10 + (STEP[0] + GAP) * 3 + STEP[0] / 2
    for number, (taken, names, color) in enumerate(OUTPUTS):
        x = 10 + (OUTPUT[0] + SPACE) * number
        middle = x + OUTPUT[0] / 2
        drawing.arrow([(last, 78), (last, 98), (middle, 98), (middle, 122)])
        drawing.box((x, 124), OUTPUT, (taken, *names), color)
    return drawing

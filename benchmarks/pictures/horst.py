"""A layer of HORST: a queue of the last S states, which each time step attends to."""

from benchmarks.pictures.svg import Drawing

STATES = ("t - 4", "t - 3", "t - 2", "t - 1")
WEIGHTS = (0.1, 0.25, 0.2, 0.45)  # an example


def draw() -> Drawing:
    """Draw the queue, the attention of a step, and the state that joins the queue."""
    drawing = Drawing(760, 330, "A time step attends to the last states in a queue, and joins it")
    drawing.frame((150, 16), (470, 112), "queue of S states: a key and a value map each")
    for number, (name, weight) in enumerate(zip(STATES, WEIGHTS, strict=True)):
        x = 166 + 112 * number
        drawing.box((x, 44), (96, 68), (name, "key, value"), "blue")
        drawing.arrow([(x + 48, 112), (x + 48, 168)])
        drawing.path(f"M{x + 56} 158v-{36 * weight:g}h12v{36 * weight:g}z", "orange-solid")
    drawing.arrow([(150, 78), (24, 78)], dashed=True)
    drawing.text((84, 48), "oldest", "small")
    drawing.text((84, 63), "drops out", "small")
    drawing.box(
        (166, 170),
        (432, 50),
        ("STATT", "softmax weights of states, sigmoid weights of their positions"),
        "orange",
    )
    drawing.box((20, 264), (104, 50), ("frame t", "maps x"), "gray")
    drawing.box((166, 264), (110, 50), ("encode", "e and query Q"), "gray")
    drawing.box((310, 264), (130, 50), ("state h", "of e and STATT"), "green")
    drawing.box((474, 264), (124, 50), ("output y", "of x, e, STATT"), "green")
    drawing.arrow([(124, 289), (164, 289)])
    drawing.arrow([(221, 264), (221, 222)])
    drawing.text((227, 243), "query", "small", "start")
    drawing.arrow([(276, 289), (308, 289)])
    drawing.arrow([(375, 220), (375, 262)])
    drawing.arrow([(440, 289), (472, 289)])
    drawing.arrow([(598, 289), (630, 289)])
    drawing.text((688, 289), "to the next layer", "small")
    drawing.arrow([(410, 264), (410, 242), (680, 242), (680, 78), (622, 78)])
    drawing.text((690, 150), "key,", "small", "start")
    drawing.text((690, 166), "value", "small", "start")
    drawing.text((690, 182), "of t", "small", "start")
    return drawing

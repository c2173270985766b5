"""A sub-layer of feature fixation: shifts, gates, and linear attention."""

from benchmarks.pictures.svg import Drawing


def draw() -> Drawing:
    """Draw queries, keys and values from left to right, and their shared gate below."""
    drawing = Drawing(800, 320, "Keys and values are shifted, queries and keys gated, then attend")
    drawing.box((16, 120), (84, 50), ("tokens", "x"), "gray")
    rows = (("q", 30), ("k", 120), ("v", 210))
    for name, y in rows:
        drawing.box((132, y), (50, 50), (name,), "gray")
        drawing.arrow([(100, 145), (116, 145), (116, y + 25), (130, y + 25)])
    for y in (120, 210):
        drawing.box((214, y), (116, 50), ("shift", "from neighbors"), "violet")
        drawing.arrow([(182, y + 25), (212, y + 25)])
    for y in (30, 120):
        drawing.box((362, y), (90, 50), ("ReLU", "+ offset"), "gray")
        drawing.box((536, y), (50, 50), ("\u00d7 g",), "orange")
        drawing.arrow([(452, y + 25), (534, y + 25)])
        drawing.arrow([(586, y + 25), (622, y + 25)])
    drawing.arrow([(182, 55), (360, 55)])
    drawing.arrow([(330, 145), (360, 145)])
    drawing.arrow([(330, 235), (622, 235)])
    drawing.box((400, 260), (122, 46), ("gate g", "sigmoid(W[q; k; v])"), "orange")
    for x, y in ((466, 55), (478, 145), (490, 235)):
        drawing.line([(x, y), (x, 258)], "thin", dashed=True)
    drawing.arrow([(522, 283), (561, 283), (561, 172)])
    drawing.arrow([(561, 120), (561, 82)])
    text = ("attention", "q (k\u1d40 v)", "linear in", "the tokens")
    drawing.box((624, 30), (84, 230), text, "green")
    drawing.arrow([(708, 145), (748, 145)])
    drawing.text((772, 145), "out", "bold")
    return drawing

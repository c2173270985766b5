"""A composed model: stem, grid of tokens, blocks of sub-layers, pooling, head."""

from benchmarks.pictures.svg import Drawing

FLOW = (
    ("clip", ("B, 3, T, H, W",), "gray"),
    ("stem", ("tubelets",), "gray"),
    ("grid", ("B, T, H, W, D",), "violet"),
    ("blocks", ("\u00d7 depth",), "blue"),
    ("pooling", ("class token,", "mean, region"), "gray"),
    ("head", ("classes, steps,", "segments, boxes"), "gray"),
)
CHOICES = (
    ("pattern", "which tokens attend to which", "orange",
     ("joint, space, time", "width, height, window", "local, strided, causal")),
    ("kernel", "how a group is computed", "green",
     ("softmax, capped", "linear, of features", "recurrence")),
    ("options", "what happens to q, k and v", "violet",
     ("gates, shifts", "rotary positions", "norms of q and k")),
)  # fmt: skip


def draw() -> Drawing:
    """Draw the flow of a clip, a block below it, and the choices of a sub-layer below that."""
    drawing = Drawing(
        820, 420, "A clip becomes a grid of tokens; a block has sub-layers of pattern and kernel"
    )
    for column, (name, lines, color) in enumerate(FLOW):
        x = 20 + 134 * column
        drawing.box((x, 20), (110, 66), (name, *lines), color)
        if column:
            drawing.arrow([(x - 24, 53), (x - 2, 53)])
    block_x = 20 + 134 * 3
    drawing.line([(block_x, 86), (20, 118)], "thin", dashed=True)
    drawing.line([(block_x + 110, 86), (800, 118)], "thin", dashed=True)
    drawing.frame((20, 118), (780, 104), "block: one to three attention sub-layers, and an MLP")
    parts = (("sub-layer 1", "norm, attention, +", "blue"),
             ("sub-layer 2", "norm, attention, +", "blue"),
             ("MLP", "norm, MLP, +", "gray"))  # fmt: skip
    for column, (name, text, color) in enumerate(parts):
        x = 44 + 258 * column
        drawing.box((x, 148), (216, 56), (name, text), color)
        if column:
            drawing.arrow([(x - 42, 176), (x - 2, 176)])
    drawing.line([(44, 204), (20, 246)], "thin", dashed=True)
    drawing.line([(260, 204), (800, 246)], "thin", dashed=True)
    drawing.frame((20, 246), (780, 154), "sub-layer: a pattern, a kernel, and options")
    for column, (name, text, color, names) in enumerate(CHOICES):
        x = 44 + 258 * column
        drawing.box((x, 278), (216, 104), (name, text, *names), color)
    return drawing

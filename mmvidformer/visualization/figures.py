"""What all figures of matplotlib have in common."""

from matplotlib.figure import Figure
from matplotlib.text import Text


def without_formulas(figure: Figure) -> Figure:
    """Let texts show ``$``, which names of files and classes may have, as it is; in place."""
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    return figure

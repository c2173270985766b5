"""What all figures of matplotlib have in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmvidformer.errors import UserError
from mmvidformer.sinks.fonts import find_font
from mmvidformer.storage.atomic import write_atomically
from mmvidformer.storage.names import spell

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def without_formulas(figure: Figure) -> Figure:
    """Let texts show names of files and classes, with ``$`` and all alphabets; in place."""
    for text in _list_texts(figure):
        text.set_parse_math(False)
        lines = text.get_text().split("\n")
        file, _ = find_font("".join(lines))
        text.set_text("\n".join(find_font(line)[1] for line in lines))
        properties = text.get_fontproperties().copy()
        properties.set_file(file)
        text.set_fontproperties(properties)
    return figure


def save_figure(figure: Figure, path: str | Path, **options: Any) -> None:
    """Write a picture, of the format that its suffix names; ``options`` of ``savefig``.

    Raises:
        UserError: If Matplotlib has no such format.
    """
    form = Path(path).suffix.lower().removeprefix(".") or "png"
    if form not in figure.canvas.get_supported_filetypes():
        raise UserError(f"{path} must be a picture such as .png")
    for text in _list_texts(figure):  # a name of a file may be no text
        text.set_text(spell(text.get_text()))
    with write_atomically(path) as part:
        figure.savefig(part, format=form, **options)


def _list_texts(figure: Figure) -> list[Any]:
    return figure.findobj(lambda artist: hasattr(artist, "set_parse_math"))

"""Fonts of this machine that have the letters of a text."""

import warnings
from functools import cache, lru_cache

from mmvidformer.storage.names import spell

NO_LETTERS = "Last Resort"  # a font that has a box for each letter


@lru_cache(maxsize=1000)
def find_font(text: str) -> tuple[str, str]:
    r"""Return the file of a font for a line, and the line as the font can draw it.

    DejaVu Sans, which matplotlib has, lacks the letters of half of the world. A letter that no font
    of this machine has becomes its number, such as ``\u8df3``, and a warning says so. A name that
    is no text is spelled.
    """
    from matplotlib import font_manager  # only for what is drawn

    text = spell(text)
    plain = str(font_manager.findfont("DejaVu Sans"))  # its own class cannot be pickled
    letters = frozenset(map(ord, text))
    if not letters - _letters_of(plain):
        return plain, text
    fonts = [font for font in font_manager.fontManager.ttflist if NO_LETTERS not in font.name]
    files = [plain, *sorted({str(font.fname) for font in fonts})]
    file = min(files, key=lambda name: len(letters - _letters_of(name)))
    if missing := letters - _letters_of(file):
        named = "".join(map(chr, sorted(missing)))
        warnings.warn(f"no font here has {named}; one such as Noto Sans CJK does", stacklevel=2)
        text = "".join(rf"\u{ord(c):04x}" if ord(c) in missing else c for c in text)
    return file, text


@cache
def _letters_of(file: str) -> frozenset[int]:
    from matplotlib.ft2font import FT2Font  # as above

    try:
        return frozenset(FT2Font(file).get_charmap())
    except (OSError, RuntimeError):  # gone, or of a kind that FreeType cannot read
        return frozenset()

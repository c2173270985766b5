"""Names of files as text."""

import os
import unicodedata
from pathlib import Path


def spell(name: str) -> str:
    r"""Spell a file name that is not UTF-8 for tables: its foreign bytes as in ``caf\xe9.mp4``.

    ``os.fsencode(name)`` would be the bytes of the file name; tables hold only UTF-8.
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def name_from(folder: str | Path, path: str | Path) -> str:
    """Return a file's path from a folder, with ``/`` on all systems; of another drive all of it."""
    try:
        name = os.path.relpath(path, folder)
    except ValueError:  # Windows has no path from one drive to another
        name = os.path.abspath(path)
    return name.replace(os.sep, "/")


def describe_other_form(path: Path) -> str:
    """Say of a file that is not there if its folder has one with the same letters in other bytes.

    Unicode writes an accent as a letter of its own (macOS) or as a part of one (most others). The
    two look the same. Returns an empty string if there is none.
    """
    if path.name.isascii() or not path.parent.is_dir():
        return ""
    name = unicodedata.normalize("NFC", path.name)
    for other in path.parent.iterdir():
        if other.name != path.name and unicodedata.normalize("NFC", other.name) == name:
            return f"; a file of the same letters has other bytes, {ascii(other.name)}: rename it"
    return ""

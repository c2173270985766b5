"""Text of files, whatever program wrote them."""

import re
import sys
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from functools import cache
from pathlib import Path

from mmvidformer.errors import UserError

# Letters of Western Europe and a few signs. Other bytes may as well be of another encoding.
WESTERN = re.compile(rb"[\x00-\x7f\xc0-\xd6\xd8-\xf6\xf8-\xff\xa0\xa7\xab\xb0\xb5\xbb]*")
OTHER_LETTERS = re.compile(rb"[\xc0-\xff]{3}")  # words of letters that are not in ASCII: Cyrillic
START = 4096  # bytes in which zeros tell UTF-16


def read_text(path: str | Path) -> str:
    """Read text in UTF-8, UTF-16 or, if that is certain, Windows-1252; line ends stay.

    Raises:
        UserError: If it is in another encoding; names the file.
    """
    return decode_text(Path(path).read_bytes(), path)


def decode_text(content: bytes, path: str | Path) -> str:
    """Decode the content of a file, as ``read_text``; ``path`` is its name for messages."""
    if encoding := _encoding_of_utf16(content):
        return _decode(content, encoding, path)
    if b"\0" in content:
        raise UserError(f"{path} must be text in UTF-8, it has bytes of zero")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if not WESTERN.fullmatch(content) or OTHER_LETTERS.search(content):
            raise UserError(f"{path} must be text in UTF-8: {error}") from error
    _say_western(path)
    return content.decode("cp1252")


def _encoding_of_utf16(content: bytes) -> str | None:
    """Return the encoding of text with a mark of UTF-16, or with zeros in every second byte."""
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "utf-16"
    even, odd = content[:START:2], content[1:START:2]
    if content.startswith(BOM_UTF8) or len(content) % 2 or len(content) < 4:
        return None
    if odd.count(0) > len(odd) / 2 and not even.count(0):
        return "utf-16-le"
    if even.count(0) > len(even) / 2 and not odd.count(0):
        return "utf-16-be"
    return None


def _decode(content: bytes, encoding: str, path: str | Path) -> str:
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} must be text in UTF-8: {error}") from error
    if "\0" in text:  # UTF-32, or no text
        raise UserError(f"{path} must be text in UTF-8, it has bytes of zero")
    return text


@cache
def _say_western(path: str | Path) -> None:
    """Say once that the encoding of a file was guessed."""
    print(
        f"{path} is no UTF-8: read as Windows-1252; if letters are wrong, save it as UTF-8",
        file=sys.stderr,
    )

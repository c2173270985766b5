"""Sentences of Markdown: those of paragraphs, of items of lists, and of cells of tables."""

import re
from collections.abc import Iterator
from pathlib import Path

FENCE = re.compile(r"(?ms)^ *```.*?^ *```$")
DROPPED = re.compile(r"<!--.*?-->|!\[[^\]]*\]\([^)]*\)")  # comments and pictures
ITEM = re.compile(r" *(?:[-*]|\d+\.) |#+ |\|")
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")
CODE = re.compile(r"`+[^`]+`+|<code>.*?</code>")
END = re.compile(r"(?<=[.!?])[*_)\"]*\s+")
CELL_END = re.compile(r"[;:]\s+")


def read_sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line where each sentence's paragraph begins, and the sentence without marks."""
    text = path.read_text()
    for pattern in (FENCE, DROPPED):
        text = pattern.sub(lambda match: "\n" * match[0].count("\n"), text)
    for line, paragraph in _paragraphs(text):
        for part in _parts(paragraph):
            yield from ((line, sentence) for sentence in END.split(part) if sentence.strip())


def count_words(sentence: str) -> int:
    """Words, of which a piece of code is one; dashes and signs are none."""
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of each paragraph, item, heading or row of a table."""
    start, lines = 1, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if lines and (not line.strip() or ITEM.match(line)):
            yield start, " ".join(lines)
            lines = []
        if line.startswith("#"):
            yield number, line
        elif line.strip() and not line.startswith(("    ", ":::")):  # code, and what is generated
            start = start if lines else number
            lines.append(line.strip())


def _parts(paragraph: str) -> list[str]:
    plain = LINK.sub(r"\1", CODE.sub("CODE", paragraph)).replace("*", "")
    if not paragraph.startswith("|"):
        return [plain]
    cells = re.split(r"(?<!\\)\|", plain.strip("|"))
    return [part for cell in cells for part in CELL_END.split(cell)]

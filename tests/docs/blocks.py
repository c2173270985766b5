"""Blocks of code and commands in Markdown."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

COMMANDS = ("mmvidformer ", "python ", "bash ", "tools/", "mim ", "pip ", "awk ")
VARIABLE = re.compile(r"[A-Z_]+=\S*$")


@dataclass(frozen=True)
class Block:
    """A block: its page, the line it starts at, its language and its text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def read_blocks(path: Path, root: Path) -> list[Block]:
    """Fenced blocks, and indented ones without a language."""
    page = str(path.relative_to(root))
    blocks: list[Block] = []
    fence, lines, start = None, [], 0
    previous_blank = True
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        opening = re.match(r"\s*```(\w*)", line)
        if fence is not None:
            if opening:
                blocks.append(Block(page, start, fence, "\n".join(lines)))
                fence, lines = None, []
            else:
                lines.append(line)
        elif opening:
            fence, lines, start = opening[1], [], number + 1
        elif line.startswith("    ") and (lines or previous_blank):
            start = start if lines else number
            lines.append(line[4:])
        elif lines and line.strip():
            blocks.append(Block(page, start, "", "\n".join(lines)))
            lines = []
        elif lines:
            lines.append("")
        previous_blank = not line.strip()
    if lines:
        blocks.append(Block(page, start, "", "\n".join(lines)))
    return blocks


def inline_commands(path: Path, root: Path) -> list[Block]:
    """Commands in running text, between backticks."""
    page = str(path.relative_to(root))
    found = []
    fenced = re.sub(r"(?ms)^```.*?^```", lambda m: "\n" * m[0].count("\n"), path.read_text())
    for match in re.finditer(r"`((?:mmvidformer |python |tools/\w+\.sh )[^`\n]+)`", fenced):
        line = fenced.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, "bash", match[1]))
    return found


def split_commands(text: str) -> list[list[str]]:
    """The words of each command of a shell block, without variables set before it."""
    text = re.sub(r"\\\n\s*", " ", text)
    commands = []
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        while words and VARIABLE.match(words[0]):
            words.pop(0)
        if words:
            commands.append(words)
    return commands


def is_shell(block: Block) -> bool:
    """Whether a block holds commands."""
    if block.language in ("bash", "sh"):
        return True
    first = re.sub(r"^([A-Z_]+=\S*\s+)+", "", block.text.lstrip())
    return block.language == "" and first.startswith(COMMANDS)

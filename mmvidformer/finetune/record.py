"""The results that a command has already, so that the same command goes on after them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmvidformer.errors import FileThere
from mmvidformer.storage.atomic import write_atomically
from mmvidformer.storage.files import read_json


class FoldsRecord:
    """What is known of each fold, in a file that is written when more is known.

    Args:
        file: The file, of JSON.
        command: Options of the command, as text, by name.
        force: Whether to start again.

    Raises:
        FileThere: If the file is of another command, and not ``force``.
    """

    def __init__(self, file: Path, command: Mapping[str, str], force: bool = False) -> None:
        self.file, self.command = file, dict(command)
        self.rows: list[dict[str, Any]] = []
        if file.exists() and not force:
            self.rows = self._read()

    def _read(self) -> list[dict[str, Any]]:
        content = read_json(self.file)
        names = sorted({*self.command, *content["command"]})
        changed = [name for name in names if self.command.get(name) != content["command"].get(name)]
        if changed:
            what = f"is of a command with other options: {', '.join(changed)}; --force starts again"
            raise FileThere(f"{self.file} {what}")
        return content["rows"]

    def put(self, row: dict[str, Any]) -> None:
        """Add the row of a fold, in place of an earlier one, and write the file."""
        self.rows[:] = [other for other in self.rows if other["fold"] != row["fold"]]
        self.rows.append(row)
        text = json.dumps({"command": self.command, "rows": self.rows}, indent=1)
        with write_atomically(self.file) as part:
            part.write_text(f"{text}\n", encoding="utf-8")

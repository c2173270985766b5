"""What results depend on: settings that lie beside them, so that no others are mixed with them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmvidformer.errors import FileThere, UserError
from mmvidformer.storage.files import exists, join, read_file, write_file

SETTINGS, FAILED = "_settings.json", "_failed.csv"  # readers of tables leave out names with _


def check_settings(
    results: str | Path, settings: Mapping[str, Any], record: str | Path | None = None
) -> None:
    """Record the settings of results, or compare them with those of old ones.

    Args:
        results: A folder, or a table.
        settings: What the results depend on.
        record: File of the settings; default: one in the folder.

    Raises:
        FileExistsError: If they differ, or there is a table of failures without settings.
    """
    record = record or join(results, SETTINGS)
    settings = json.loads(json.dumps(dict(settings)))  # lists for tuples
    if not exists(record):
        failed = join(results, FAILED)
        if exists(failed):
            raise FileThere(f"{failed} is there without {SETTINGS}; use another place")
        write_file(record, f"{json.dumps(settings, indent=1)}\n".encode())
        return
    try:
        recorded = dict(json.loads(read_file(record)))
    except (TypeError, ValueError) as error:
        raise UserError(f"{record} is damaged; use another place") from error
    unknown = object()
    names = sorted({*recorded, *settings})
    differ = [name for name in names if recorded.get(name, unknown) != settings.get(name, unknown)]
    if differ:
        what = f"{results} has results with another {', '.join(differ)} ({record})"
        raise FileThere(f"{what}; use another place")

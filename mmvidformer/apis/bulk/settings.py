"""What the rows of a folder depend on, and the table of its failures."""

import csv
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmvidformer.checkpoints.download import hash_of
from mmvidformer.config import config_name
from mmvidformer.storage.files import exists, is_remote, join, read_file, write_file, write_to

SETTINGS, FAILED = "_settings.json", "_failed.csv"  # readers of tables leave out names with _


def model_settings(cfg: Config, checkpoint: str | None) -> dict[str, Any]:
    """Return what tells a model from others: its name, and the hashes of its config and weights.

    Args:
        cfg: The config with all overrides.
        checkpoint: File or address; an address stands for itself.
    """
    config = hashlib.sha256(repr(cfg.to_dict()).encode()).hexdigest()
    is_file = checkpoint is not None and Path(checkpoint).is_file()
    weights = hash_of(Path(checkpoint)) if is_file else checkpoint
    return dict(model=config_name(cfg.filename or ""), config=config[:16], checkpoint=weights)


def make_writable(folder: str) -> None:
    """Make a folder, with an error if it cannot be written; storage has none."""
    if is_remote(folder):
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} cannot be written")


def check_settings(folder: str | Path, settings: Mapping[str, Any]) -> None:
    """Record the settings of a folder of results, or compare them with those of an old folder.

    Raises:
        FileExistsError: If they differ.
    """
    record = join(folder, SETTINGS)
    if not exists(record):
        write_file(record, f"{json.dumps(dict(settings), indent=1)}\n".encode())
        return
    recorded = json.loads(read_file(record))
    differ = sorted(key for key in settings if recorded.get(key) != settings[key])
    if differ:
        what = f"{folder} has results with another {', '.join(differ)} ({record})"
        raise FileExistsError(f"{what}; use another folder")


def write_failed(folder: str, failed: Mapping[str, str]) -> str:
    """Write the table of failures, which is empty without any; returns its path."""
    table = join(folder, FAILED)
    with write_to(table) as part, part.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("video", "reason"), *failed.items()])
    return table

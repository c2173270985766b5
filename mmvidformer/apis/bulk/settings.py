"""What the rows of a folder depend on, and the table of its failures."""

import csv
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmvidformer.checkpoints.download import hash_of
from mmvidformer.config import config_name
from mmvidformer.data.sources import VideoInputs
from mmvidformer.engine.bulk_options import BulkOptions
from mmvidformer.storage.files import join, write_to
from mmvidformer.storage.names import spell
from mmvidformer.storage.resuming import FAILED


def row_settings(
    options: BulkOptions, cfg: Config, checkpoint: str | None, inputs: VideoInputs
) -> dict[str, Any]:
    """Return what the rows of a command depend on: its options with ``changes_rows``.

    Files stand for their content.

    Args:
        options: The options of the command.
        cfg: The config with all overrides.
        checkpoint: File, folder or address; an address stands for itself.
        inputs: The videos.
    """
    settings = dict(**model_settings(cfg, checkpoint), input=inputs.address)
    for setting in fields(options):
        value = getattr(options, setting.name)
        if "options" in setting.metadata:
            settings[setting.name] = asdict(value)
        elif setting.metadata.get("changes_rows", "help" in setting.metadata):
            settings[setting.name] = _describe(value)
    return settings


def model_settings(cfg: Config, checkpoint: str | None) -> dict[str, Any]:
    """Return what tells a model from others: its name, and the hashes of its config and weights.

    Args:
        cfg: The config with all overrides.
        checkpoint: File, folder or address; an address stands for itself.
    """
    config = hash_text(repr(cfg.to_dict()))
    is_local = checkpoint is not None and Path(checkpoint).exists()
    weights = _describe(Path(checkpoint)) if is_local else checkpoint
    return dict(model=config_name(cfg.filename or ""), config=config[:16], checkpoint=weights)


def _describe(value: Any) -> Any:
    """Return the value of an option as JSON holds it; of a file or a folder a hash of its content.

    Hidden files of a folder do not count.
    """
    if not isinstance(value, Path):
        return value
    if not value.is_dir():
        return hash_of(value)
    hashes = [
        f"{file.relative_to(value).as_posix()} {hash_of(file)}\n"
        for file in sorted(value.rglob("[!.]*"))
        if file.is_file()
    ]
    return hash_text("".join(hashes))


def hash_text(text: str) -> str:
    """SHA-256 of a text in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_failed(folder: str, failed: Mapping[str, str]) -> str:
    """Write the table of failures, which is empty without any; returns its path."""
    table = join(folder, FAILED)
    rows = [(spell(name), spell(reason)) for name, reason in failed.items()]
    with write_to(table) as part, part.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("video", "reason"), *rows])
    return table

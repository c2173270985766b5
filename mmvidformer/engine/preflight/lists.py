"""What is wrong with a list that MMAction2 cannot read."""

import re
from collections.abc import Mapping
from pathlib import Path

from mmengine.config import Config

from mmvidformer.config import leaf_datasets, type_name


def explain_list(cfg: Config, error: Exception) -> str | None:
    """Find the line of a list on which building a dataset has failed.

    MMAction2 raises the error of ``int`` or of a tuple, which names neither file nor line.

    Args:
        cfg: Complete config.
        error: What building the datasets has raised.

    Returns:
        A message with file and line; None if no list is malformed.
    """
    if not isinstance(error, ValueError | IndexError | AssertionError):
        return None
    loaders = (cfg.get(f"{split}_dataloader") or {} for split in ("train", "val", "test"))
    leaves = (leaf for loader in loaders for leaf in leaf_datasets(loader.get("dataset") or {}))
    return next(filter(None, map(_explain, leaves)), None)


def _explain(dataset: Mapping) -> str | None:
    columns, delimiter = ["PATH", "LABEL"], dataset.get("delimiter", " ")
    if type_name(dataset) == "RawframeDataset":
        columns = ["FOLDER", *["OFFSET"] * dataset.get("with_offset", False), "FRAMES", "LABEL"]
        delimiter = None
    elif type_name(dataset) not in ("VideoDataset", "RepeatAugDataset", "ClassSubsetDataset"):
        return None
    path, number = Path(dataset.get("data_root") or "", dataset.get("ann_file") or ""), 0
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(map(str.strip, lines), start=1):
            numbers = line.split(delimiter)[1:]
            valid = all(re.fullmatch(r"[+-]?\d+", text) for text in numbers)
            valid &= len(columns) - 2 <= len(numbers) and "\ufffd" not in line
            if not valid or (len(numbers) >= len(columns) and not dataset.get("multi_class")):
                needed = f"{len(columns)} columns ({' '.join(columns)})"
                needed += f" with delimiter {delimiter!r}, got {line[:100]!r}"
                return f"{path}, line {number}: must be UTF-8 text of {needed}"
    return None if number else f"{path} is empty"

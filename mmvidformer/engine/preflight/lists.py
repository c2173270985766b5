"""Which line of a list MMAction2 could not read."""

from pathlib import Path

from mmengine.config import Config

from mmvidformer.config import leaf_datasets, type_name
from mmvidformer.datasets.lists import FRAMES, VIDEOS, read_list

KINDS = {"RawframeDataset": FRAMES}
KINDS |= dict.fromkeys(("VideoDataset", "RepeatAugDataset", "ClassSubsetDataset"), VIDEOS)


def explain_list(cfg: Config, error: Exception) -> str | None:
    """Find the malformed line of a list on which building a dataset has failed.

    MMAction2 raises the error of ``int``, of a tuple or of NumPy, without file and line.

    Args:
        cfg: Complete config.
        error: What building the datasets has raised.

    Returns:
        A message with file and line; None if no list is malformed.
    """
    loaders = [cfg.get(f"{split}_dataloader") or {} for split in ("train", "val", "test")]
    if not isinstance(error, ValueError | IndexError | AssertionError):
        return None
    for dataset in (leaf for one in loaders for leaf in leaf_datasets(one.get("dataset") or {})):
        if (columns := KINDS.get(type_name(dataset))) is None:
            continue
        if dataset.get("with_offset"):
            columns = ("FOLDER", "OFFSET", "FRAMES")
        delimiter = None if columns[0] == "FOLDER" else dataset.get("delimiter", " ")
        path = Path(dataset.get("data_root") or "", dataset.ann_file)
        try:
            entries = read_list(path, delimiter, columns, dataset.get("multi_class", False))
        except OSError:
            continue
        except ValueError as problem:
            return str(problem)
        if not entries:
            return f"{path} is empty"
    return None

"""Sharded checkpoints: a folder with a file per rank, and how to merge them into one.

The folder holds ``rank0.pth``, ``rank1.pth``, ... and, once all of them are written,
``complete.json`` with their number. In a file, a sharded tensor is a dict that holds the rows of
this rank, so that ``torch.load(..., weights_only=True)`` reads it.
"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from mmengine.runner import CheckpointLoader

from mmvidformer.atomic import AtomicBackend

ROWS = "sharded_rows"
NOTE = "complete.json"
# Before the path, for MMEngine's loader of checkpoints.
SCHEME = "shards://"


def mark_complete(folder: str | Path, ranks: int) -> None:
    """Note that the files of all ranks are written."""
    AtomicBackend().put(json.dumps(dict(processes=ranks)).encode(), Path(folder) / NOTE)


def is_sharded(path: str | Path) -> bool:
    """Whether a path is a folder of shards, finished or not, and no HuggingFace folder."""
    return Path(path).is_dir() and not Path(path, "config.json").is_file()


def shard_files(folder: str | Path) -> list[Path]:
    """List the files of a sharded checkpoint.

    Raises:
        ValueError: If the folder is not a complete sharded checkpoint.
    """
    folder = Path(folder)
    if not (folder / NOTE).is_file():
        raise ValueError(f"{folder} has no {NOTE}: not a sharded checkpoint, or an unfinished one")
    ranks = json.loads((folder / NOTE).read_text())["processes"]
    paths = [folder / f"rank{rank}.pth" for rank in range(ranks)]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise ValueError(f"{folder} was saved by {ranks} ranks and lacks {', '.join(missing)}")
    return paths


def merge_shards(folder: str | Path) -> dict:
    """Merge a sharded checkpoint into one with full tensors, on the CPU.

    Returns:
        The checkpoint, as if it had been saved as one file.

    Raises:
        ValueError: If the folder is not a complete sharded checkpoint.
    """
    load = partial(torch.load, map_location="cpu", mmap=True, weights_only=True)
    return _merge([load(path) for path in shard_files(folder)])


@CheckpointLoader.register_scheme(prefixes=SCHEME)
def _load(filename: str, map_location: object = None) -> dict:
    return merge_shards(filename.removeprefix(SCHEME))


def _merge(trees: Sequence) -> object:
    first = trees[0]
    if not isinstance(first, dict):
        return first
    if ROWS in first:
        return torch.cat([tree[ROWS] for tree in trees])
    return {key: _merge([tree[key] for tree in trees]) for key in first}

"""Sharded checkpoints: a folder with a file per rank, and how to merge them into one.

The folder holds ``rank0.pth``, ``rank1.pth``, ... and, once all of them are written,
``complete.json`` with their number. In a file, a sharded tensor is a dict of its full size and the
parts of this rank with their offsets, so that ``torch.load(..., weights_only=True)`` reads it.
"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from mmvidformer.engine.checkpointing.atomic import AtomicBackend

SIZE, PARTS = "sharded_size", "sharded_parts"
NOTE = "complete.json"


def mark_complete(folder: str | Path, ranks: int) -> None:
    """Note that the files of all ranks are written."""
    AtomicBackend().put(json.dumps(dict(processes=ranks)).encode(), Path(folder) / NOTE)


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
        The checkpoint. Its ``state_dict`` loads into a plain model; its ``optimizer`` is FSDP's,
        in which parameters go by name.

    Raises:
        ValueError: If the folder is not a complete sharded checkpoint, or a part of a tensor is
            missing.
    """
    load = partial(torch.load, map_location="cpu", mmap=True, weights_only=True)
    return _merge([load(path) for path in shard_files(folder)], str(folder))


def _merge(trees: Sequence, name: str) -> object:
    first = trees[0]
    if not isinstance(first, dict):
        return first
    if SIZE not in first:
        return {key: _merge([tree[key] for tree in trees], f"{name}/{key}") for key in first}
    size, parts = first[SIZE], [part for tree in trees for part in tree[PARTS]]
    if sum(part.numel() for _, part in parts) != torch.Size(size).numel():
        raise ValueError(f"{name}: the parts do not add up to a tensor of size {size}")
    full = torch.empty(size, dtype=parts[0][1].dtype)
    for offsets, part in parts:
        place = [slice(o, o + n) for o, n in zip(offsets, part.shape, strict=True)]
        full[tuple(place)] = part
    return full

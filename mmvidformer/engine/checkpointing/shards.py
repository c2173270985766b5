"""Checkpoints in shards: a file of plain tensors for each process, and one file made of them.

A folder holds ``rank0.pth``, ``rank1.pth`` ... and, once all are written, ``complete.json`` with
their number. In a file a sharded tensor is a dict with its whole size and the parts that the
process held, each with its place, so that ``torch.load(..., weights_only=True)`` reads it.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.distributed._shard.sharded_tensor import ShardedTensor

_SIZE, _PARTS = "sharded_size", "sharded_parts"
_NOTE = "complete.json"


def to_plain(tree: object) -> object:
    """Replace sharded tensors, anywhere in dicts and lists, by what this process holds of them."""
    if isinstance(tree, ShardedTensor):
        parts = [(list(s.metadata.shard_offsets), s.tensor.cpu()) for s in tree.local_shards()]
        return {_SIZE: list(tree.size()), _PARTS: parts}
    if isinstance(tree, dict):
        return {key: to_plain(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(to_plain(value) for value in tree)
    return tree


def mark_complete(folder: str | Path, processes: int) -> None:
    """Note that the files of all processes are written."""
    (Path(folder) / _NOTE).write_text(json.dumps(dict(processes=processes)) + "\n")


def mark_incomplete(folder: str | Path) -> None:
    """Take the note away, before the files are written anew."""
    (Path(folder) / _NOTE).unlink(missing_ok=True)


def is_complete(folder: str | Path) -> bool:
    """Tell whether ``folder`` is a checkpoint in shards whose files are all written."""
    return (Path(folder) / _NOTE).is_file()


def merge_shards(folder: str | Path) -> dict:
    """Put a checkpoint in shards together, with whole tensors, on the CPU.

    Returns:
        What each process saved but for the tensors' shards; ``state_dict`` loads into a plain
        model. The ``optimizer`` is one of FSDP, in which parameters go by their names.

    Raises:
        ValueError: If the folder is none of a checkpoint in shards, is not complete, or a part of a
            tensor is missing.
    """
    folder = Path(folder)
    if not is_complete(folder):
        raise ValueError(
            f"{folder} has no {_NOTE}: it is no checkpoint in shards, or was cut off in writing"
        )
    processes = json.loads((folder / _NOTE).read_text())["processes"]
    paths = [folder / f"rank{rank}.pth" for rank in range(processes)]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise ValueError(f"{folder} is of {processes} processes and lacks {', '.join(missing)}")
    files = [torch.load(p, map_location="cpu", mmap=True, weights_only=True) for p in paths]
    return _merge(files, str(folder))


def _merge(trees: Sequence, name: str) -> object:
    first = trees[0]
    if isinstance(first, dict) and _SIZE in first:
        return _whole(trees, name)
    if isinstance(first, dict):
        return {key: _merge([tree[key] for tree in trees], f"{name}/{key}") for key in first}
    return first


def _whole(trees: Sequence[dict], name: str) -> torch.Tensor:
    parts = [part for tree in trees for part in tree[_PARTS]]
    size = trees[0][_SIZE]
    if sum(part.numel() for _, part in parts) != torch.Size(size).numel():
        raise ValueError(f"{name}: the parts are not those of a tensor of size {size}")
    whole = torch.empty(size, dtype=parts[0][1].dtype)
    for offsets, part in parts:
        place = [slice(o, o + n) for o, n in zip(offsets, part.shape, strict=True)]
        whole[tuple(place)] = part
    return whole

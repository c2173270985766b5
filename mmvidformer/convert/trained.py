"""Checkpoints that hold only what was trained, and say where the other weights are."""

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

BASE = "base"


def keep_trained(content: dict, frozen: Iterable[str], source: str) -> None:
    """Drop weights that were not trained from the content of a checkpoint, in place.

    Args:
        content: Content with a ``state_dict``. ``base`` is added to it: the source of the dropped
            weights, and a checksum of them.
        frozen: Names of the weights to drop.
        source: File or address that holds them, in any format.
    """
    dropped = {name: content["state_dict"].pop(name) for name in frozen}
    content[BASE] = {"source": source, "crc32": checksum(dropped)}


def complete(content: dict, path: Path, device: str | torch.device | None) -> dict:
    """Add the weights that ``keep_trained`` dropped; ``content`` itself if it did not.

    Raises:
        FileNotFoundError: If their file is neither where it was nor beside ``path``.
        ValueError: If it holds other weights now.
    """
    if BASE not in content:
        return content
    from mmvidformer.convert import fetch, formats, io  # which use this module

    source, trained = content[BASE]["source"], content["state_dict"]
    file = fetch.fetch(source)
    beside = path.parent / file.name
    if not file.exists() and not beside.exists():
        where = f"which is not there; put it into {path.parent.absolute()}"
        raise FileNotFoundError(f"{path} holds only what was trained of {source}, {where}")
    checkpoint = io.unwrap(io.read_content(file if file.exists() else beside, device), source)
    state = {name.removeprefix("module."): x for name, x in checkpoint.state.items()}
    if formats.recognize(state) != "mmvidformer":
        state = formats.convert_checkpoint(checkpoint, source)[1].state
    kept = {name: x for name, x in state.items() if name.startswith("backbone.")}
    rest = {name: x for name, x in kept.items() if name not in trained}
    if str(device) != "meta" and checksum(rest) != content[BASE]["crc32"]:
        raise ValueError(f"{path} was trained on other weights than {source} holds now")
    return {**content, "state_dict": {**rest, **trained}}


def checksum(state: Mapping[str, Tensor]) -> int:
    """Checksum of the matrices, which no model resizes, in float32."""
    total = 0
    for name, value in sorted(state.items()):
        if value.dim() == 2 and name.endswith(".weight"):
            total = zlib.crc32(value.detach().cpu().float().contiguous().numpy().data, total)
    return total

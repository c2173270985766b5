"""The same two weights in a file of each format, and what runs code when it is read."""

import os
from pathlib import Path

import msgpack
import numpy as np
import torch
from safetensors.torch import save_file

WEIGHTS = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.ones(3)}


def write(path: Path) -> None:
    if path.suffix == ".npz":
        np.savez(path, **{name: value.numpy() for name, value in WEIGHTS.items()})
    elif path.suffix == ".safetensors":
        save_file(WEIGHTS, path)
    elif path.stem == "legacy":
        torch.save(WEIGHTS, path, _use_new_zipfile_serialization=False)
    elif path.suffix == ".msgpack":
        tree = {name: flax_array(value.numpy()) for name, value in WEIGHTS.items()}
        path.write_bytes(msgpack.packb(tree))
    else:
        torch.save({"model_state": WEIGHTS, "epoch": 3}, path)


def flax_array(array: np.ndarray, dtype: str | None = None) -> msgpack.ExtType:
    content = (array.shape, dtype or array.dtype.name, array.tobytes())
    return msgpack.ExtType(1, msgpack.packb(content))


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return os.system, (f"touch {self.mark}",)

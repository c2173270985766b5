"""Arrays of NumPy and of flax, as tensors."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgpack
import numpy as np
import torch
from torch import Tensor

from mmvidformer.checkpoints.keymap import State
from mmvidformer.errors import UserError


def read_msgpack(path: Path) -> State:
    """Read the tensors of a file of flax by their paths in its tree."""
    return dict(_flatten(msgpack.unpackb(path.read_bytes(), ext_hook=_read_flax_array)))


def _read_flax_array(code: int, data: bytes) -> Tensor:
    """Read flax's extension of msgpack: shape, name of the dtype, and bytes.

    ``code`` tells arrays from scalars, which makes no difference here.
    """
    shape, dtype, buffer = msgpack.unpackb(data)
    array = np.frombuffer(buffer, "V2" if dtype == "bfloat16" else dtype)
    return to_tensor(array.reshape(shape).copy())  # the buffer is read-only


def _flatten(tree: Mapping, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a tree and their paths; other values, such as steps, are left out."""
    if "__msgpack_chunked_array__" in tree:
        raise UserError(f"array {prefix} is stored in chunks, which are not read")
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}/")
        elif isinstance(value, Tensor):
            yield prefix + name, value


def to_tensor(array: np.ndarray) -> Tensor:
    """Return an array as a tensor, with the same memory."""
    if array.dtype.str.endswith("V2"):  # how NumPy stores bfloat16
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)

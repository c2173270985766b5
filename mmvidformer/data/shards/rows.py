"""What a list says of a sample, as a line of JSON."""

import json
from typing import Any

import numpy as np
import torch

from mmvidformer.errors import UserError

ARRAY, TENSOR = "array", "tensor"


def write_row(sample: dict[str, Any]) -> str:
    """Write a sample of a dataset in one line; arrays and tensors keep type, shape and bits.

    Raises:
        TypeError: If a value is neither text, a number, an array, nor a list or dictionary of them.
    """
    return json.dumps(sample, default=_encode, ensure_ascii=False)


def read_row(line: str | bytes) -> dict[str, Any]:
    """Read a sample that ``write_row`` wrote."""
    return json.loads(line, object_hook=_decode)


def _encode(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, torch.Tensor):
        array, name = value.numpy(), TENSOR
    elif isinstance(value, np.ndarray):
        array, name = value, ARRAY
    else:
        raise TypeError(f"a row cannot hold {value!r}, a {type(value).__name__}")
    return {name: array.dtype.str, "shape": array.shape, "values": array.ravel().tolist()}


def _decode(value: dict[str, Any]) -> Any:
    if value.keys() not in ({ARRAY, "shape", "values"}, {TENSOR, "shape", "values"}):
        return value
    dtype = np.dtype(value.get(ARRAY) or value.get(TENSOR))
    if dtype.hasobject:
        raise UserError(f"a row cannot hold objects, got {dtype}")
    array = np.array(value["values"], dtype).reshape(value["shape"])
    return torch.from_numpy(array) if TENSOR in value else array

"""MMEngine 0.10 cannot read its own checkpoints back under ``weights_only=True``.

Symptom: since PyTorch 2.6, ``_pickle.UnpicklingError: Weights only load failed`` on resume and
test, because a checkpoint holds MMEngine's message hub and NumPy scalars. References:
open-mmlab/mmengine#1650, #1655. The types that are needed are allowed, and only those; the
safety stays on. ``HistoryBuffer`` stores its statistics methods, which pickle writes as a call of
``getattr``; since that could reach anything, a narrow function stands in for it that knows these
methods alone.
"""

from collections.abc import Callable

import numpy as np
import torch

_STATISTICS = ("min", "max", "mean", "current")


def narrow_getattr(owner: type, name: str) -> Callable:
    """Give a statistics method of ``HistoryBuffer``.

    Raises:
        PermissionError: For any other object or attribute.
    """
    from mmengine.logging import HistoryBuffer

    if owner is not HistoryBuffer or name not in _STATISTICS:
        raise PermissionError(
            f"the file asks for attribute {name!r} of {owner!r}, which no MMEngine checkpoint "
            "needs; it is refused, since loading it could run code"
        )
    return getattr(owner, name)


def needed() -> bool:
    """Whether ``torch.load`` is safe by default (PyTorch 2.6 and newer)."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return version >= (2, 6)


def repair() -> None:
    """Allow the harmless types that MMEngine writes."""
    from mmengine.logging import HistoryBuffer
    from numpy._core import multiarray

    callables = {"_reconstruct": multiarray._reconstruct, "scalar": multiarray.scalar}
    torch.serialization.add_safe_globals(
        [
            HistoryBuffer,
            (narrow_getattr, "builtins.getattr"),
            np.ndarray,
            np.dtype,
            type(np.dtype("f8")),
            type(np.dtype("i8")),
            # Files that were written with NumPy 1 name the same functions without underscore.
            *((f, f"numpy._core.multiarray.{name}") for name, f in callables.items()),
            *((f, f"numpy.core.multiarray.{name}") for name, f in callables.items()),
        ]
    )

"""MMEngine 0.10 cannot read its own checkpoints under ``weights_only=True``.

Symptom: since PyTorch 2.6, ``_pickle.UnpicklingError: Weights only load failed`` when resuming and
testing, because a checkpoint contains MMEngine's message hub and NumPy scalars. References:
open-mmlab/mmengine#1650, #1655. The repair allows exactly the types that are needed, and
``weights_only`` stays on. ``HistoryBuffer`` stores its statistics methods, which pickle writes as
calls of ``getattr``. A narrow function replaces ``getattr``, since the latter could reach anything.
"""

from collections.abc import Callable

import numpy as np
import torch

_STATISTICS = ("min", "max", "mean", "current")


def narrow_getattr(owner: type, name: str) -> Callable:
    """Return a statistics method of ``HistoryBuffer``; refuse anything else."""
    from mmengine.logging import HistoryBuffer

    if owner is not HistoryBuffer or name not in _STATISTICS:
        raise PermissionError(
            f"asks for attribute {name!r} of {owner!r}, which no checkpoint of MMEngine contains"
        )
    return getattr(owner, name)


def repair() -> None:
    """Allow the harmless types that MMEngine writes."""
    from mmengine.logging import HistoryBuffer

    # What pickle calls. Files written with NumPy 1 name its module without an underscore.
    values = {"_reconstruct": np.empty(0), "scalar": np.float64(0)}
    functions = [
        (value.__reduce__()[0], f"numpy.{core}.multiarray.{name}")
        for core in ("_core", "core")
        for name, value in values.items()
    ]
    dtypes = np.dtype, type(np.dtype("f8")), type(np.dtype("i8"))
    torch.serialization.add_safe_globals(
        [HistoryBuffer, np.ndarray, *dtypes, (narrow_getattr, "builtins.getattr"), *functions]
    )

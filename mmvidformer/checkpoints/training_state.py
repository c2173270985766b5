"""What a checkpoint of MMEngine holds besides weights, allowed under ``weights_only=True``.

Since PyTorch 2.6, MMEngine 0.10 cannot read its own checkpoints (``_pickle.UnpicklingError: Weights
only load failed``; open-mmlab/mmengine#1650, #1655): they contain its message hub and NumPy
scalars. Exactly the types that are needed are allowed. ``HistoryBuffer`` stores its statistics
methods, which pickle writes as calls of ``getattr``. A narrow function replaces ``getattr``, since
the latter could reach anything.
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


def allow_training_state() -> None:
    """Let PyTorch read the harmless types that MMEngine writes, in this process.

    It is for each reading: whatever uses ``torch.serialization.safe_globals`` takes its types back.
    """
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

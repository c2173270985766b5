"""PyTorch's DataLoader waits a whole ``timeout`` for a worker that was killed (seen with 2.15).

Symptom: with ``timeout=300`` and workers of a fork server, as in the shipped configs, a run says
after five minutes that a worker was killed, for want of memory, say. Without a timeout, the loader
looks every 5 seconds whether its workers live. With one, it waits for the signal of a child, and
workers of a fork server are no children. The repair looks as often in both cases.
"""

import time
from typing import Any

from torch.utils.data import _utils
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter


def repair() -> None:
    """Wait in parts."""
    wait = _MultiProcessingDataLoaderIter._try_get_data
    if getattr(wait, "__module__", None) == __name__:
        return

    def _try_get_data(loader: Any, timeout: float | None = None) -> tuple[bool, Any]:
        end = time.monotonic() + (_utils.MP_STATUS_CHECK_INTERVAL if timeout is None else timeout)
        while True:
            left = max(end - time.monotonic(), 0)
            seconds = min(left, _utils.MP_STATUS_CHECK_INTERVAL)
            arrived, batch = wait(loader, seconds)
            if arrived or seconds == left:
                return arrived, batch

    _MultiProcessingDataLoaderIter._try_get_data = _try_get_data  # type: ignore[method-assign]

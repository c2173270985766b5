"""Groups of gloo damage the memory of their process in PyTorch 2.8 to 2.15.

Symptom: rarely, on a busy machine, a process ends with ``malloc(): unaligned tcache chunk
detected``; seen with 2.13 and 2.15. The two threads of a group write the name of the last
collective to one string, and no lock guards it (``runLoop`` of ``ProcessGroupGloo``, since
pytorch/pytorch#152614). Names of 16 letters or more, such as ``ALLGATHER_COALESCED`` of a sharded
checkpoint, are in memory that the other thread frees meanwhile: the letters of a name are found in
a freed block. The repair gives new groups one thread. Collectives of a group start in one order
anyway, and results are the same.
"""

import os
from datetime import timedelta
from typing import Any

from torch.distributed import distributed_c10d


def repair() -> None:
    """Replace the class by which PyTorch makes groups."""
    made = getattr(distributed_c10d, "ProcessGroupGloo", None)
    if made is not None and not hasattr(made, "THREADS"):
        vars(distributed_c10d)["ProcessGroupGloo"] = _with_one_thread(made)


def _with_one_thread(made: Any) -> Any:
    class ProcessGroupGloo(made):
        THREADS = 1

        def __init__(
            self, store: Any, rank: int, size: int, timeout: timedelta, **settings: Any
        ) -> None:
            options = made._Options()
            names = os.environ.get("GLOO_SOCKET_IFNAME")
            options._devices = (
                [made.create_device(interface=name) for name in names.split(",")]
                if names
                else [made.create_default_device()]
            )
            options._timeout, options._threads = timeout, self.THREADS
            for name, value in settings.items():
                setattr(options, name, value)
            super().__init__(store, rank, size, options)

    return ProcessGroupGloo

"""MMAction2 1.2's AVA metric forks 32 processes, and never closes them.

Symptom: validation stands still, with one process of 32 left. ``ava_eval`` makes a
``multiprocessing.Pool`` and lets go of it at its end, where SIGTERM ends the processes. One that
was forked a moment ago does not receive it if Python handles the signal, as while a run trains;
and a process that is forked while other threads run may wait for a lock for ever. The repair
computes few moments here, and many in processes that have none of the threads of this one.
"""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace

from mmaction.evaluation.functional import ava_utils

MANY = 1000  # moments, which take seconds, as processes do to start


def map_moments(function: Callable, moments: Sequence) -> list:
    """Return what a function returns for each moment, as the method ``map`` of a pool."""
    if len(moments) < MANY:
        return [function(moment) for moment in moments]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(function, moments, chunksize=100))


if ava_utils.multiprocessing is multiprocessing:
    ava_utils.multiprocessing = SimpleNamespace(
        Pool=lambda processes: SimpleNamespace(map=map_moments)
    )

"""Fixtures of the tests of the engine."""

import itertools
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import distributed


@pytest.fixture
def in_processes(tmp_path: Path) -> Callable:
    """Call a function in a gloo group of n processes; gives what each returns, by rank.

    They are forked, so that they need not import torch anew.
    """
    calls = itertools.count()
    return lambda n, function, *args: _run(n, function, tmp_path / f"call{next(calls)}", args)


def _run(count: int, function: Callable, folder: Path, args: tuple) -> list:
    folder.mkdir()
    context = multiprocessing.get_context("fork")
    started = [
        context.Process(target=_one, args=(rank, count, function, folder, args))
        for rank in range(count)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
    codes = [process.exitcode for process in started]
    for process in started:
        process.kill()
    assert codes == [0] * count, f"the processes ended with {codes}"
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(count)]


def _one(rank: int, count: int, function: Callable, folder: Path, args: tuple) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count))
    os.chdir(folder)  # for the logs
    store = distributed.FileStore(str(folder / "store"), count)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=count)
    result = function(*args)
    torch.save(result, folder / f"{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()

"""The repair ``lost_workers``: a killed worker is told soon, whatever starts workers."""

import inspect
import os
import signal
import time

import pytest
from torch.utils.data import DataLoader, Dataset, _utils
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from mmvidformer.repairs import lost_workers


class Killed(Dataset):
    """Its worker is killed, as for want of memory."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return index


class Late(Killed):
    """Its worker needs longer than the loader waits at a time."""

    def __getitem__(self, index: int) -> int:
        time.sleep(0.5)
        return index


@pytest.fixture
def often(monkeypatch) -> None:
    """Look every 0.1 s."""
    monkeypatch.setattr(_utils, "MP_STATUS_CHECK_INTERVAL", 0.1)


def loader(dataset: Dataset, timeout: float) -> DataLoader:
    return DataLoader(dataset, num_workers=1, timeout=timeout, multiprocessing_context="forkserver")


def test_a_killed_worker_is_told_before_the_timeout(often) -> None:
    with pytest.raises(RuntimeError, match=r"worker \(pid\(s\) \d+\) exited unexpectedly"):
        next(iter(loader(Killed(), timeout=3600)))


def test_a_worker_that_is_late_is_waited_for(often) -> None:
    (batch,) = loader(Late(), timeout=3600)
    assert batch.tolist() == [0]


class Waiting:
    """What the loader's iterator waits for: nothing comes."""

    def __init__(self) -> None:
        self.parts: list[float] = []

    def wait(self, seconds: float) -> tuple[bool, None]:
        self.parts.append(seconds)
        return False, None


@pytest.mark.parametrize(("timeout", "parts"), [(None, [5]), (3, [3]), (0, [0]), (12, [5, 5, 2])])
def test_the_whole_timeout_is_waited(timeout, parts, monkeypatch) -> None:
    now = 0.0

    def wait(waiting: Waiting, seconds: float) -> tuple[bool, None]:
        nonlocal now
        now += seconds
        return waiting.wait(seconds)

    monkeypatch.setattr(_utils, "MP_STATUS_CHECK_INTERVAL", 5)
    monkeypatch.setattr(_MultiProcessingDataLoaderIter, "_try_get_data", wait)
    monkeypatch.setattr(lost_workers, "time", type("Clock", (), {"monotonic": lambda: now}))
    lost_workers.repair()
    waiting = Waiting()
    arguments = () if timeout is None else (timeout,)
    result = _MultiProcessingDataLoaderIter._try_get_data(waiting, *arguments)
    assert (result, waiting.parts) == ((False, None), parts)


def test_the_repair_is_needed_and_done_once() -> None:
    before = _MultiProcessingDataLoaderIter._try_get_data
    assert before.__module__ == lost_workers.__name__
    lost_workers.repair()
    assert _MultiProcessingDataLoaderIter._try_get_data is before
    wait = next(cell.cell_contents for cell in before.__closure__ if callable(cell.cell_contents))
    assert "_data_queue.get(timeout=timeout)" in inspect.getsource(wait)  # waits in one part

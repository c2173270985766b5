"""Results that one process holds."""

import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from mmvidformer.errors import FileThere
from mmvidformer.storage.resuming import hold


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
def test_a_forked_worker_that_lives_on_does_not_hold_them(tmp_path: Path, run: Callable) -> None:
    """In a process of its own: a fork of one with threads may wait forever for a lock."""
    process = run(sys.executable, __file__, tmp_path / "run")
    printed = process.communicate(timeout=120)[0]
    assert process.returncode == 0, printed


def _hold(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    begun, end = context.Event(), context.Event()
    with hold(path):
        worker = context.Process(target=_work, args=(begun, end))
        worker.start()
        assert begun.wait(60)
        with pytest.raises(FileThere, match="another process writes to"), hold(path):
            pass
    try:
        with hold(path):
            assert worker.is_alive()
    finally:
        end.set()
        worker.join()


def _work(begun: Event, end: Event) -> None:
    begun.set()
    end.wait()


if __name__ == "__main__":
    _hold(Path(sys.argv[1]))

"""Results that one process holds."""

import multiprocessing
import os
from multiprocessing.synchronize import Event

import pytest

from mmvidformer.errors import FileThere
from mmvidformer.storage.resuming import hold


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_worker_that_lives_on_does_not_hold_them(tmp_path) -> None:
    context = multiprocessing.get_context("fork")
    begun, end = context.Event(), context.Event()
    with hold(tmp_path / "run"):
        worker = context.Process(target=_work, args=(begun, end))
        worker.start()
        assert begun.wait(60)
        with pytest.raises(FileThere, match="another process writes to"), hold(tmp_path / "run"):
            pass
    try:
        with hold(tmp_path / "run"):
            assert worker.is_alive()
    finally:
        end.set()
        worker.join()


def _work(begun: Event, end: Event) -> None:
    begun.set()
    end.wait()

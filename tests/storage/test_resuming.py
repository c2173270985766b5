"""Results that one process holds."""

import multiprocessing
import os

import pytest

from mmvidformer.errors import FileThere
from mmvidformer.storage.resuming import hold


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_worker_that_lives_on_does_not_hold_them(tmp_path) -> None:
    context = multiprocessing.get_context("fork")
    end = context.Event()
    with hold(tmp_path / "run"):
        worker = context.Process(target=end.wait)
        worker.start()
        with pytest.raises(FileThere, match="another process writes to"), hold(tmp_path / "run"):
            pass
    try:
        with hold(tmp_path / "run"):
            assert worker.is_alive()
    finally:
        end.set()
        worker.join()

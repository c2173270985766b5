"""Processes that work on groups of videos."""

import os
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait

import pytest

from mmvidformer.video.processes import _Process


def no_work(group: Sequence, touch: Callable[[str], None]) -> Iterator:
    yield from ()


@pytest.mark.parametrize("waits", [False, True])
def test_a_process_that_has_ended_is_not_killed(waits: bool, monkeypatch) -> None:
    """The system may have given its number to another one, which does not belong to this one."""
    process = _Process(no_work, 60.0, None)
    process.pipe.close()  # it ends
    wait([process._process.sentinel])
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *signal: killed.append(signal))
    assert process.end(waits) == 0
    assert killed == []

"""A group of gloo has one thread, so that two do not write one string."""

import os
import signal
import subprocess
import sys
from collections import Counter

import pytest
import torch

# In a group of one process nothing waits for another one: the threads only take up and end works.
COLLECTIVES = """
import sys
from pathlib import Path
import torch
from torch import distributed
from torch.distributed import distributed_c10d
import mmvidformer.registry

threads, rounds = map(int, sys.argv[1:])
distributed_c10d.ProcessGroupGloo.THREADS = threads
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
group, whole, part = distributed.group.WORLD, torch.zeros(4), torch.arange(4.0)
for _ in range(rounds):
    works = []
    for _ in range(64):
        works.append(group.allgather_into_tensor_coalesced([whole], [part]))  # a long name
        works.append(distributed.all_reduce(part, async_op=True))  # a short one
    for work in works:
        work.wait()
assert torch.equal(whole, torch.arange(4.0)) and torch.equal(part, whole)
print(*(path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")), sep="\\n")
distributed.destroy_process_group()
"""
has_names = pytest.mark.skipif(torch.__version__ < "2.8", reason="its threads have no names")


def run(threads: int, rounds: int, **variables: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-W", "ignore", "-c", COLLECTIVES, str(threads), str(rounds)]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@has_names
@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
@pytest.mark.parametrize("variables", [{}, {"GLOO_SOCKET_IFNAME": "lo"}], ids=["default", "lo"])
def test_a_group_has_one_thread(variables: dict[str, str]) -> None:
    result = run(1, 2, **variables)
    assert result.returncode == 0, result.stderr
    assert Counter(result.stdout.split())["pt_gloo_runloop"] == 1


@pytest.mark.slow
@has_names
def test_threads_damage_the_heap_and_one_does_not() -> None:
    """When this fails, PyTorch guards the string, and the repair can go."""
    assert run(1, 500).returncode == 0
    assert run(16, 20_000).returncode in (-signal.SIGABRT, -signal.SIGSEGV)

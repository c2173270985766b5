"""A group of gloo has one thread, so that two do not write one string."""

import signal
import subprocess
import sys

import pytest
import torch

# In a group of one process nothing waits for another one: the threads only take up and end works.
COLLECTIVES = """
import os, sys
from pathlib import Path
import torch
from torch import distributed
from torch.distributed import distributed_c10d
import mmvidformer.repairs

threads, rounds, *interfaces = sys.argv[1:]
if int(threads):  # else as many as the repair gives
    distributed_c10d.ProcessGroupGloo.THREADS = int(threads)
for interface in interfaces:
    if interface:
        os.environ["GLOO_SOCKET_IFNAME"] = interface
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    group, whole, part = distributed.group.WORLD, torch.zeros(4), torch.arange(4.0)
    for _ in range(int(rounds)):
        works = []
        for _ in range(64):
            works.append(group.allgather_into_tensor_coalesced([whole], [part]))  # a long name
            works.append(distributed.all_reduce(part, async_op=True))  # a short one
        for work in works:
            work.wait()
    assert torch.equal(whole, torch.arange(4.0)) and torch.equal(part, whole)
    print(*(path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")))
    distributed.destroy_process_group()
"""
has_names = pytest.mark.skipif(torch.__version__ < "2.8", reason="its threads have no names")


def run(threads: int, rounds: int, *interfaces: str) -> subprocess.CompletedProcess:
    """Groups by one network interface after another; an empty one is the default."""
    command = [sys.executable, "-W", "ignore", "-c", COLLECTIVES, str(threads), str(rounds)]
    return subprocess.run([*command, *interfaces], capture_output=True, text=True)


@has_names
@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_group_has_one_thread() -> None:
    result = run(0, 2, "", "lo")
    assert result.returncode == 0, result.stderr
    threads = [line.split().count("pt_gloo_runloop") for line in result.stdout.splitlines()]
    assert threads == [1, 1]


@pytest.mark.slow
@has_names
def test_threads_damage_the_heap_and_one_does_not() -> None:
    """When this fails, PyTorch guards the string, and the repair can go."""
    assert run(1, 500, "").returncode == 0
    assert run(16, 20_000, "").returncode in (-signal.SIGABRT, -signal.SIGSEGV)

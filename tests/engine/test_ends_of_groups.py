"""How a process of a group ends, while a thread of gloo still needs the interpreter."""

import subprocess
import sys

import pytest
from torch.distributed.elastic.utils.distributed import get_free_port

# The callback stands for a thread that has not been given a core since its collective ended.
PROCESS = """
import atexit, sys, threading, time
import torch
from torch import distributed
from mmvidformer.engine.errors import run_tool

started = threading.Event()

def stay(future):
    started.set()
    while True:
        time.sleep(0.001)

def main():
    global group
    address = f"tcp://127.0.0.1:{sys.argv[1]}"
    distributed.init_process_group("gloo", init_method=address, rank=0, world_size=1)
    group = distributed.group.WORLD  # as a wrapped model does
    work = distributed.all_reduce(torch.ones(1), async_op=True)
    work.get_future().then(stay)
    started.wait()
    threading.Thread(target=lambda: time.sleep(0.1) or print("thread")).start()
    atexit.register(print, "exit function")
    print("main")
    return 3

sys.exit(run_tool(main))
"""


@pytest.mark.slow
def test_a_process_of_a_group_ends_while_gloo_works() -> None:
    """Its threads and exit functions are run, its output is written, and its status is kept."""
    command = [sys.executable, "-W", "ignore", "-c", PROCESS, str(get_free_port())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.split("\n") == ["main", "thread", "exit function", ""]

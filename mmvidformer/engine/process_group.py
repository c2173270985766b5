import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.device import get_device
from torch import distributed
from torch.distributed.elastic.utils.distributed import get_free_port

from mmvidformer.engine.errors import GONE, GONE_STATUS, LAUNCHED

# Signals by which a cluster asks a run to stop; Windows has the first alone.
STOP_SIGNALS = (signal.SIGTERM, *filter(None, [getattr(signal, "SIGUSR1", None)]))
# Seconds that processes have to end by themselves after one of them has failed, or after Ctrl-C.
GRACE = 10.0


def start_processes(arguments: Sequence[str], count: int) -> int:
    """Run Python in several processes on this node, one per GPU, or on the CPU without one.

    ``torch.distributed.run`` and its ``elastic_launch`` would do so, but lose what a run needs, in
    PyTorch 2.15 too: when one process fails, the others have 30 seconds, whatever is set; the
    status may be that of one that only lost the others; what ended processes started is left. In
    PyTorch 2.6 it also kills 30 seconds after a signal, too soon to save a large checkpoint, and
    does not pass on SIGUSR1.

    The environment variables ``NNODES``, ``NODE_RANK``, ``MASTER_ADDR`` and ``PORT`` describe
    several nodes. Each process has its own session. SIGTERM, SIGUSR1 and Ctrl-C are passed on to
    the processes, not to their dataloader workers; a second signal kills them. When one fails, the
    others have a few seconds to end. At the end all that is left of the sessions is killed, on
    Linux; on macOS the processes are, but not what they have started.

    Args:
        arguments: Arguments of Python: a script, or ``-m`` and a module, and what these take. They
            also get ``--launcher pytorch``.
        count: Number of processes on this node.

    Returns:
        The exit status: 0 if all succeeded, that of the first process that failed, or 128 + the
        number of the signal that ended it.
    """
    env = dict(os.environ)
    # PyTorch would use all cores in each process. Half of the cores of a process, but at most 8,
    # are left to its dataloader workers.
    cores = max(torch.get_num_threads() // count, 1)
    threads = env.setdefault("OMP_NUM_THREADS", str(cores - min(cores // 2, 8)))
    env.setdefault("MKL_NUM_THREADS", threads)
    nodes, node = int(env.get("NNODES", "1")), int(env.get("NODE_RANK", "0"))
    port = env.get("PORT", "29500" if nodes > 1 else str(get_free_port()))
    env |= {"WORLD_SIZE": str(nodes * count), "LOCAL_WORLD_SIZE": str(count), "MASTER_PORT": port}
    env.setdefault("MASTER_ADDR", "127.0.0.1")
    env[LAUNCHED] = str(os.getpid())
    command = [sys.executable, *arguments, "--launcher", "pytorch"]
    started: list[subprocess.Popen] = []
    received: list[int] = []

    def pass_on(number: int, _: object) -> None:
        received.append(number)
        for process in started:
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, *STOP_SIGNALS)}
    try:
        for local in range(count):
            ranks = {"RANK": str(node * count + local), "LOCAL_RANK": str(local)}
            started.append(subprocess.Popen(command, env=env | ranks, start_new_session=True))
        return _wait(started, received)
    finally:
        _kill_sessions(started)
        for number, handler in before.items():
            signal.signal(number, handler)


def is_first_process(launcher: str) -> bool:
    """Whether this is the first process of a group, before they have joined."""
    rank = {"slurm": "SLURM_PROCID", "mpi": "OMPI_COMM_WORLD_RANK"}.get(launcher, "RANK")
    return launcher == "none" or os.environ.get(rank, "0") == "0"


def _wait(started: Sequence[subprocess.Popen], received: Sequence[int]) -> int:
    """Wait for processes and return the exit status of the first one that failed."""
    status, deadline = 0, float("inf")
    while True:
        running = [rank for rank, process in enumerate(started) if process.poll() is None]
        # First what a signal ended, last what only lost the others: the cause, not what follows.
        failures = sorted(
            (process.returncode, rank) for rank, process in enumerate(started) if process.returncode
        )
        if failures and status in (0, GONE_STATUS):
            status, first = failures[0]
            if status < 0 and -status not in received:
                name = signal.Signals(-status).name
                hint = "; the system may be out of memory" if name == "SIGKILL" else ""
                print(f"error: process {first} was ended by {name}{hint}", file=sys.stderr)
        if (status or signal.SIGINT in received) and deadline == float("inf"):
            deadline = time.monotonic() + GRACE
        if not running or len(received) > 1 or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    for rank in running:
        print(f"killed process {rank}, which did not end by itself", file=sys.stderr)
        status = status or -received[0]
    if status == GONE_STATUS:
        print(f"error: {GONE}", file=sys.stderr)
        return 1
    return 128 - status if status < 0 else status


def _kill_sessions(leaders: Sequence[subprocess.Popen]) -> None:
    """Kill processes and all that is left in their sessions, such as dataloader workers."""
    for leader in leaders:
        leader.kill()
        leader.wait()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if os.getsid(int(entry.name)) in [leader.pid for leader in leaders]:
                os.kill(int(entry.name), signal.SIGKILL)


def join_processes(cfg: Config) -> None:
    """Join the processes of a config with a launcher into a gloo group if there is no accelerator.

    Otherwise the runner does it. The variables that PyTorch needs are those that ``torchrun`` sets.
    ``cfg.env_cfg.dist_cfg.timeout`` is in seconds (default 600).

    Raises:
        UserError: If a variable is missing.
    """
    if cfg.launcher == "none" or distributed.is_initialized() or get_device() != "cpu":
        return
    options = (cfg.get("env_cfg") or {}).get("dist_cfg") or {}
    distributed.init_process_group("gloo", timeout=timedelta(seconds=options.get("timeout", 600)))

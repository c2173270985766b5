"""Peak memory of a call, and what to do where memory does not suffice."""

import json
import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile


def peak_memory(call: Callable[[Tensor], object], inputs: Tensor) -> int:
    """Most bytes that a call holds at a time, beyond what there was before.

    On a GPU from PyTorch's statistics. On a CPU every allocation of PyTorch's allocator is
    recorded by the profiler, which finds working memory inside operators too; the resident size
    of the process would tell what the C library keeps, not what the call needs. Scratch memory
    of libraries with an allocator of their own (oneDNN) is not seen.

    Args:
        call: What is called, once.
        inputs: Its argument, on the device that counts.
    """
    if inputs.device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call(inputs)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = call(inputs)
    del result
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    changes = [event for event in events if event.get("name") == "[memory]"]
    held = peak = 0
    for event in sorted(changes, key=lambda event: event["ts"]):
        held += event["args"]["Bytes"]
        peak = max(peak, held)
    return peak


@contextmanager
def memory_allowance(device: str, limit: int | None = None) -> Iterator[None]:
    """Let allocations on a CPU fail before the system runs out of memory and ends the process.

    Args:
        device: Elsewhere than on ``'cpu'`` nothing is done.
        limit: Bytes that the process may take on top of what it has; default: what is free.
    """
    if device != "cpu":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (_free_memory() if limit is None else limit)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _free_memory() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory did not suffice, on a GPU or a CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)

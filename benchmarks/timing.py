"""Time of a call, and the peak speed of matrix multiplications and copies."""

import time
from collections.abc import Callable
from statistics import median

import torch

# Side of the matrices and bytes of the copy: far above every cache, and fast enough.
SIDES = {"cpu": 2048, "cuda": 8192}
COPY = {"cpu": 2**28, "cuda": 2**30}


def time_call(call: Callable[[], object], device: str) -> tuple[float, float]:
    """Return the wall-clock seconds and the CPU seconds (all threads together) of a call.

    On a GPU both are the time between two events of the device.
    """
    if device != "cuda":
        start = time.perf_counter(), time.process_time()
        call()
        return time.perf_counter() - start[0], time.process_time() - start[1]
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    seconds = start.elapsed_time(end) / 1000
    return seconds, seconds


def matmul_rate(device: str, dtype: torch.dtype, repeats: int = 5) -> float:
    """Return the multiply-accumulates per second of a large matmul (median)."""
    side = SIDES[device]
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(left)
    return side**3 / _typical(lambda: torch.mm(left, right, out=out), device, repeats)


def copy_rate(device: str, repeats: int = 5) -> float:
    """Return the bytes per second that a large copy reads and writes together (median)."""
    source = torch.zeros(COPY[device], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * COPY[device] / _typical(lambda: target.copy_(source), device, repeats)


def _typical(call: Callable[[], object], device: str, repeats: int) -> float:
    call()
    return median(time_call(call, device)[0] for _ in range(repeats))

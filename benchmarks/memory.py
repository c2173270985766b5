"""Peak memory of a call."""

import json
import tempfile
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile


def peak_memory(call: Callable[[Tensor], object], inputs: Tensor) -> int:
    """Measure the peak memory of a call, in bytes beyond what was allocated before.

    On a CPU the profiler records every allocation of PyTorch's allocator, including temporary
    memory of operators, but not that of libraries with their own allocator (oneDNN). The resident
    size of the process would show what the C library keeps instead of what the call needs.

    Args:
        call: Function to call once.
        inputs: Its argument, on the device to measure.
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
    changes.sort(key=lambda event: event["ts"])
    return max(accumulate((event["args"]["Bytes"] for event in changes), initial=0))

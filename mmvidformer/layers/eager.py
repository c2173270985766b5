"""When a function with a backward pass of its own may replace PyTorch's operators."""

import torch


def runs_eagerly() -> bool:
    """Return whether operators run at once, one by one.

    They do not under ``torch.compile`` and ``torch.export``, whose graphs are of operators that
    they know, under ``torch.jit.trace``, whose files hold such operators only, and within the
    transforms of ``torch.func``, which differentiate operators themselves.
    """
    in_graph = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return not in_graph and not torch._C._are_functorch_transforms_active()

"""What is done only where operators run at once: own backward passes, and tables that are kept."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


def runs_eagerly() -> bool:
    """Return whether operators run at once, one by one.

    They do not under ``torch.compile`` and ``torch.export``, whose graphs are of operators that
    they know, under ``torch.jit.trace``, whose files hold such operators only, and within the
    transforms of ``torch.func`` and forward mode, which differentiate operators themselves.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    in_forward_mode = forward_ad._current_level >= 0
    return not in_forward_mode and not torch._C._are_functorch_transforms_active()


def compute_once(build: Callable[..., Any], like: Tensor, *arguments: Any) -> Any:
    """Return ``build(*arguments)``, such as a mask or a table, and keep the last results.

    Nothing is kept in a graph, where tensors are not real (as under ``FakeTensorMode``), or where
    an argument is a tensor, as the place in a stream. Nobody may change what is returned.

    Args:
        build: A function of arguments that can be hashed.
        like: A tensor as those that it builds.
        *arguments: Its arguments.
    """
    depends = any(isinstance(argument, Tensor) for argument in arguments)
    if depends or type(like) is not Tensor or not runs_eagerly():
        return build(*arguments)
    with torch.inference_mode(False):  # for later calls with gradients
        return _keep(build, *arguments)


@lru_cache(maxsize=16)
def _keep(build: Callable[..., Any], *arguments: Any) -> Any:
    return build(*arguments)

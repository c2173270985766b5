from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn


def wrap(module: nn.Module, method: str, function: Callable[..., Any]) -> None:
    """Let a method of a module call ``function(module, method before, ...)``, once.

    The module can be copied and pickled as before.
    """
    before = vars(module).get(method) or partial(getattr(type(module), method), module)
    layer = before
    while isinstance(layer, partial):
        if layer.func is function:
            return
        layer = layer.args[1] if len(layer.args) > 1 else None
    setattr(module, method, partial(function, module, before))

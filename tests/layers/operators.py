"""A count of the operators that compute."""

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Operators(TorchDispatchMode):
    """Count the operators of a ``with`` block, those of backward passes too.

    Views and memory without values do not count.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        name = operator.overloadpacket.__name__
        free = operator.is_view or "empty" in name or name in ("detach", "_unsafe_view")
        self.count += not free
        return operator(*args, **(kwargs or {}))

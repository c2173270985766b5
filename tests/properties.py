"""What holds for any layer or backbone that treats the rows of a batch on their own."""

from collections.abc import Callable, Iterator
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.func import vmap

Call = Callable[[nn.Module, Tensor], Tensor]
HALF = {torch.bfloat16: 0.1, torch.float16: 0.03}


def close(found: Tensor, expected: Tensor, tolerance: float) -> None:
    """Compare with a tolerance relative to the largest number."""
    largest = max(1.0, expected.abs().max().item())
    torch.testing.assert_close(found, expected, atol=tolerance * largest, rtol=0)


def layouts(x: Tensor) -> Iterator[Tensor]:
    """The same numbers, elsewhere in memory."""
    yield x.movedim(-1, 1).contiguous().movedim(1, -1)
    yield x.transpose(0, -1).contiguous().transpose(0, -1)
    wide = torch.full((*x.shape[:-1], 2 * x.shape[-1]), torch.nan, dtype=x.dtype)
    wide[..., ::2] = x
    yield wide[..., ::2]


def check_rows(module: nn.Module, call: Call, x: Tensor, half: bool = True) -> Tensor:
    """Compare layouts, single rows, ``vmap`` and types with a float64 batch; returns its output.

    Args:
        module: Layer or backbone.
        call: Function of it and its input that returns a tensor (B, ...).
        x: Input (B, ...).
        half: Whether outputs in half precision are near the others. They are in any case finite.
    """
    module, x = module.double().eval(), x.double()
    with torch.no_grad():
        out = call(module, x)
        assert out.isfinite().all()
        for other in layouts(x):
            close(call(module, other), out, 1e-9)
        close(torch.cat([call(module, row) for row in x.split(1)]), out, 1e-9)
        close(vmap(lambda row: call(module, row[None])[0])(x), out, 1e-9)
        close(call(deepcopy(module).float(), x.float()).double(), out, 1e-3)
        for dtype, tolerance in HALF.items():
            narrow = deepcopy(module).to(dtype)
            found = call(narrow, x.to(dtype))
            assert found.dtype == dtype and found.isfinite().all()
            if half:
                close(found.double(), call(narrow.double(), x.to(dtype).double()), tolerance)
    for mode in (True, False):
        module.train(mode)
        leaf = x.clone().requires_grad_()
        call(module, leaf).square().sum().backward()
        for name, one in [("input", leaf), *module.named_parameters()]:
            assert one.grad is None or one.grad.isfinite().all(), name
    return out

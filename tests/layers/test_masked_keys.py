"""Keys that kernels do not see."""

import pytest
import torch
import torch.nn.functional as F

from tests.layers.test_kernels import CASES, S, apply, make, tokens


@pytest.mark.parametrize("case", ["linear relu", "performer", "orthoformer", "softmax"])
def test_masked_keys_have_no_effect(case: str) -> None:
    kernel = make(CASES.get(case, {"type": case}))
    q, k, v = tokens()
    mask = torch.tensor([True] * 5 + [False] * 4)
    out = apply(kernel, q, k, v, mask=mask.expand(2, 1, 1, S))
    torch.testing.assert_close(out, apply(kernel, q, k[..., :5, :], v[..., :5, :]))


def test_masked_keys_do_not_overflow_performer() -> None:
    """A masked zero key has a much larger exponent than the long keys."""
    kernel = make(CASES["performer"]).float()
    q, k, v = tokens(dtype=torch.float32)
    long = torch.cat([100 * F.normalize(k[..., :5, :], dim=-1), 0 * k[..., 5:, :]], dim=-2)
    mask = torch.tensor([True] * 5 + [False] * 4).expand(2, 1, 1, S)
    out = kernel(q, long, v, mask=mask)
    assert out.isfinite().all()
    grads = torch.autograd.grad(out.square().sum(), (q, k, v))
    assert all(grad.isfinite().all() for grad in grads)


def test_masked_keys_count_as_zero_for_linformer() -> None:
    kernel = make(CASES["linformer"])
    q, k, v = tokens()
    mask = torch.tensor([True] * 5 + [False] * 4)
    zero = (~mask)[:, None]
    expected = kernel(q, k.masked_fill(zero, 0), v.masked_fill(zero, 0))
    torch.testing.assert_close(kernel(q, k, v, mask=mask.expand(2, 1, 1, S)), expected)

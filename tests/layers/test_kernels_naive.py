"""The kernels and their naive forms: the same outputs and gradients, whatever the shape."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from mmvidformer.layers import KERNELS
from mmvidformer.layers.kernels.base import LinearCostKernel
from mmvidformer.layers.masks import Causal, Mask
from tests.layers.naive import WEIGHTS, attend_naively

D = 6
OPTIONS = {
    "softmax": {},
    "capped": {},
    "capped low": {"cap": 0.5},
    "linear": {},
    "linear elu": {"feature": "elu"},
    "linear map last": {"map_last": True},
    "cosformer": {},
    "performer": {"num_features": 8},
    "linformer": {"length": 9, "rank": 4},
    "orthoformer": {"num_landmarks": 4},
    "lara": {"num_samples": 4},
}
IN_HALF = ["linear", "linear elu"]  # multiply in bfloat16
# queries, keys: a class token alone, few tokens, keys of other places, more tokens than features
SHAPES = [(1, 9), (1, 1), (3, 3), (9, 9), (9, 5), (40, 40)]
MASKS: dict[str, Mask] = {
    "keys": torch.tensor([True, True, False, True, False, True, True, False, True])[None],
    "pairs": torch.eye(9, dtype=torch.bool) | torch.ones(9, 9).tril(-2).bool(),
    "counts": torch.tensor([2.0, 1.0, 0.0, 3.0, 0.0, 1.0, 7.0, 1.0, 1.0])[None],
    "causal": Causal(),
    "causal, frames of 3": Causal(3),
    "causal, 2 frames of 3": Causal(3, 2),
}
CALLS: list[tuple[str, int, int, str | None]] = [
    (name, queries, keys, None)
    for name in OPTIONS
    for queries, keys in SHAPES
    if queries == keys or name != "cosformer"
]
CALLS += [(name, 9, 9, mask) for name in OPTIONS for mask in MASKS]


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    kernel = KERNELS.build({"type": name.split()[0], **OPTIONS[name]}, head_dim=D)
    return kernel.double().eval()


def takes(kernel: nn.Module, mask: str | None) -> bool:
    if mask is None:
        return True
    if mask == "keys":
        return bool({"keys", "padding"} & kernel.supports)
    needs = {mask} if mask in ("pairs", "counts") else MASKS[mask].kinds
    return needs <= kernel.supports


CALLS = [call for call in CALLS if takes(build(call[0]), call[3])]


def tokens(queries: int, keys: int) -> list[Tensor]:
    """Queries, keys, values, and weights of the outputs."""
    torch.manual_seed(1)
    lengths = (queries, keys, keys, queries)
    return [torch.randn(2, 3, length, D, dtype=torch.double) for length in lengths]


def with_gradients(
    attend, kernel: nn.Module, inputs: Sequence[Tensor], mask: Mask
) -> tuple[Tensor, ...]:
    """The output, and the gradients of inputs and parameters."""
    *qkv, weights = (x.detach().requires_grad_() for x in inputs)
    mapped = kernel.feature_map(*qkv) if kernel.feature_map else qkv
    out = attend(*mapped, mask)
    grads = torch.autograd.grad((out * weights).sum(), [*qkv, *kernel.parameters()])
    return out.detach(), *grads


def test_every_kernel_has_a_naive_form() -> None:
    others = {name: kernel for name, kernel in KERNELS.items() if name != "recurrence"}
    assert {kernel.__name__ for kernel in others.values()} == WEIGHTS.keys()
    assert {name.split()[0] for name in OPTIONS} == set(others)  # that is in test_recurrence.py


@pytest.mark.parametrize(("name", "queries", "keys", "mask"), CALLS)
def test_outputs_and_all_gradients_are_those_of_the_naive_form(
    name: str, queries: int, keys: int, mask: str | None
) -> None:
    kernel, inputs = build(name), tokens(queries, keys)

    def naive(*args: Tensor) -> Tensor:
        return attend_naively(kernel, *args)

    attention_mask = MASKS[mask] if mask else None
    expected = with_gradients(naive, kernel, inputs, attention_mask)
    exact = with_gradients(kernel, kernel, inputs, attention_mask)
    torch.testing.assert_close(exact, expected, rtol=1e-8, atol=1e-10)

    single = with_gradients(kernel.float(), kernel, [x.float() for x in inputs], attention_mask)
    for value, truth in zip(single, expected, strict=True):
        assert value.dtype == torch.float32
        assert (value - truth).abs().max() <= 2e-4 * truth.abs().max().clamp_min(1)


@pytest.mark.parametrize("name", sorted(set(OPTIONS) - set(IN_HALF)))
def test_half_precision_rounds_inputs_and_outputs_only(name: str) -> None:
    """Against the naive form in double precision, of the same rounded inputs."""
    kernel = build(name)
    *qkv, weights = (x.bfloat16() for x in tokens(40, 40))
    if kernel.feature_map:
        qkv = kernel.feature_map(*qkv)
    expected = attend_naively(kernel, *(x.double() for x in qkv))
    out = kernel.float()(*qkv)
    assert out.dtype == torch.bfloat16
    error = (out - expected).abs().max() / expected.abs().max()
    assert error < (4e-3 if isinstance(kernel, LinearCostKernel) else 1e-2)


UNIT = 2**-8  # largest relative error of rounding to bfloat16


def linear_bounds(kernel: nn.Module, inputs: Sequence[Tensor], mask: Mask) -> list[Tensor]:
    """Bounds of the errors of output and gradients of q, k, v per rounding, relative to ``UNIT``.

    A rounding changes a term of a sum by ``UNIT`` times the term, and so the sum by ``UNIT`` times
    the sum of absolute values. With weights ``w_ij`` and gradients ``g_i`` of the output these are

        y_i: sum_j w_ij |v_j|        v_j: sum_i w_ij |g_i|
        q_i: sum_j k_j / n_i (|g_i|.|v_j| + |g_i|.|y|_i)    and likewise k_j: sum_i q_i / n_i (...)

    where ``n_i`` is the normalizer and ``|y|_i`` the first of them. All features are positive.
    """
    q, k, v, g = inputs
    g, v = g.abs(), v.abs()
    seen = torch.ones(1, k.shape[-2], dtype=torch.bool) if mask is None else mask
    scores = q @ k.mT * seen
    normalizer = scores.sum(-1, keepdim=True) + kernel.eps
    outputs = scores / normalizer @ v
    of_scores = (g @ v.mT + (g * outputs).sum(-1, keepdim=True)) / normalizer * seen
    return [outputs, of_scores @ k, of_scores.mT @ q, (scores / normalizer).mT @ g]


@pytest.mark.parametrize("name", IN_HALF)
@pytest.mark.parametrize(("queries", "keys"), [*SHAPES, (600, 600)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("mean", [0.0, 4.0])
def test_products_in_bfloat16_are_off_by_their_roundings(
    name: str, queries: int, keys: int, masked: bool, mean: float, monkeypatch
) -> None:
    """Their number is counted where there are most, for ``(q k^T) v``.

    The output has 4: ``q k^T`` in it and in the normalizer, the product with v, and its own. The
    gradient of the product with v has 2, by the normalizer and its own; so that of v has 4, by
    ``q k^T`` and its own. That of ``q k^T`` has 3 on this way and 5 by the normalizer, which is
    squared, and is their sum, rounded; so those of q and k have 7.
    """
    monkeypatch.setattr("mmvidformer.layers.kernels.base._multiplies_halves", lambda *x: True)
    kernel = build(name).float()
    torch.manual_seed(1)
    lengths = (queries, keys, keys, queries)
    *qkv, g = (torch.randn(2, 3, length, D) for length in lengths)
    q, k, v = kernel.feature_map(*qkv)
    inputs = [x.bfloat16() for x in (q, k, v + mean, g)]
    mask = (torch.arange(keys) % 3 > 0)[None] if masked and keys > 1 else None

    def run(attend, dtype: torch.dtype) -> list[Tensor]:
        *leaves, weights = (x.to(dtype).requires_grad_() for x in inputs)
        out = attend(*leaves, mask)
        assert out.dtype == dtype
        return [out.detach(), *torch.autograd.grad(out, leaves, weights.detach())]

    exact = run(lambda *args: attend_naively(kernel, *args), torch.double)
    halves = run(kernel, torch.bfloat16)
    bounds = linear_bounds(kernel, [x.double() for x in inputs], mask)
    for roundings, half, expected, bound in zip((4, 7, 7, 4), halves, exact, bounds, strict=True):
        most = ((1 + UNIT) ** roundings - 1) * bound + 1e-6  # and what float32 rounds
        assert ((half - expected).abs() <= most).all()
    full = kernel(*(x.float() for x in inputs[:3]), mask)
    if queries > 1 < keys:  # products are in bfloat16 indeed
        assert (halves[0] != full.bfloat16()).any()

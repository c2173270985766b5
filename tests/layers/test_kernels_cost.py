"""Cost of the kernels of linear cost, and their causal sums."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mmvidformer.layers import KERNELS
from mmvidformer.layers.kernels.base import LinearCostKernel
from mmvidformer.layers.kernels.linear import weighted_sums
from mmvidformer.layers.masks import Causal
from tests.layers.dense_kernels import D
from tests.layers.largest_tensor import LargestTensor

LINEAR = sorted(name for name in KERNELS if issubclass(KERNELS[name], LinearCostKernel))


@pytest.mark.parametrize("name", LINEAR)
def test_cost_is_linear_in_the_tokens(name: str) -> None:
    options = {"linformer": {"length": 64, "rank": 16}, "lara": {"num_samples": 16},
               "orthoformer": {"num_landmarks": 8}}  # fmt: skip
    kernel = KERNELS.build({"type": name, **options.get(name, {})}, head_dim=D).eval()
    cost = []
    for length in (256, 512):
        x = torch.randn(1, 1, length, D)
        with FlopCounterMode(display=False) as flops, LargestTensor() as largest:
            kernel(x, x, x)
        cost.append((flops.get_total_flops(), largest.size))
    assert cost[1][0] < 2.05 * cost[0][0]
    assert cost[1][1] <= 2 * cost[0][1] < 512 * 512


@pytest.mark.parametrize(
    ("frames", "step"), [(4096, 1), (128, 1), (131, 1), (59, 5), (1, 9), (3, 130)]
)
@pytest.mark.parametrize("name", ["linear", "cosformer"])
def test_causal_sums_are_those_of_the_masked_scores(name: str, frames: int, step: int) -> None:
    kernel, length = KERNELS.build(name, head_dim=D), frames * step
    torch.manual_seed(0)
    inputs = list(torch.rand(4, 1, length, D).unbind())  # q, k, v, and weights of the outputs
    inputs = [x.requires_grad_() for x in inputs]
    out = kernel(*inputs[:3], Causal(step))
    found = torch.autograd.grad((out * inputs[3]).sum(), inputs[:3])

    q, k, v, weights = (x.detach().double().requires_grad_() for x in inputs)
    scores = q @ k.transpose(-1, -2)
    place = torch.arange(length)
    if name == "cosformer":
        scores = scores * ((place[:, None] - place) * (torch.pi / 2 / length)).cos()
    scores = scores.masked_fill(place[:, None] // step < place // step, 0)
    plain = scores @ v / (scores.sum(dim=-1, keepdim=True) + (1e-6 if name == "linear" else 0))
    expected = torch.autograd.grad((plain * weights).sum(), (q, k, v))
    for one, other in zip((out, *found), (plain, *expected), strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["linear", "cosformer"])
def test_causal_cost_is_linear_and_that_of_the_cheaper_order(name: str) -> None:
    kernel, d = KERNELS.build(name, head_dim=64).eval(), 64
    features = {"linear": d, "cosformer": 2 * d}[name]
    cost = []
    for length in (32, 512, 1024):
        x = torch.randn(2, 1, length, d)
        with FlopCounterMode(display=False) as flops, LargestTensor() as largest:
            kernel(x, x, x, Causal())
        cost.append((flops.get_total_flops(), largest.size))
    assert cost[0] == (2 * 2 * 32 * 32 * (features + d), 2 * 32 * features)
    assert cost[2][0] < 2.05 * cost[1][0]
    assert cost[2][1] <= 2 * cost[1][1] < 2 * 512 * 512


@pytest.mark.parametrize(
    ("size", "features", "dim", "macs"),
    [
        (6, 16, 4, 6 * 6 * (16 + 4)),
        (6, 4, 16, 6 * 6 * (4 + 16)),
        (32, 8, 8, 2 * 32 * 8 * 8 + 32 * 8),
    ],
)
def test_linear_attention_takes_the_cheaper_order(
    size: int, features: int, dim: int, macs: int
) -> None:
    q, k = torch.randn(2, 1, 1, size, features).unbind()
    with FlopCounterMode(display=False) as counter:
        weighted_sums(q, k, torch.randn(1, 1, size, dim), None)
    assert counter.get_total_flops() == 2 * macs

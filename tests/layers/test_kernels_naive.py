"""The kernels and their naive forms: the same outputs and gradients, whatever the shape."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from mmvidformer.layers import KERNELS
from mmvidformer.layers.kernels.naive import WEIGHTS, attend_naively
from mmvidformer.layers.masks import Causal, Mask

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
# queries, keys: a class token alone, few tokens, keys of other places, more tokens than features
SHAPES = [(1, 9), (1, 1), (3, 3), (9, 9), (9, 5), (40, 40)]
MASKS: dict[str, Mask] = {
    "keys": torch.tensor([True, True, False, True, False, True, True, False, True])[None],
    "pairs": torch.eye(9, dtype=torch.bool) | torch.ones(9, 9).tril(-2).bool(),
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
    needs = {"pairs"} if mask == "pairs" else MASKS[mask].kinds
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


@pytest.mark.parametrize("name", OPTIONS)
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
    assert error < (1e-2 if name.startswith(("softmax", "capped")) else 4e-3)

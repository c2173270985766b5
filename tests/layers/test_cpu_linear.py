"""Linear layers in oneDNN: the results of PyTorch's own, with and without gradients."""

import copy
import pickle
import warnings
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mmvidformer.layers import Mlp
from mmvidformer.layers.linear import (
    CpuLinear,
    QueryValueBias,
    add_lora,
    onednn_types,
    optimize_for_training,
)
from mmvidformer.models.inference import feed_forward

ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 2e-2}

pytestmark = pytest.mark.skipif(not onednn_types(), reason="PyTorch was built without oneDNN")


@pytest.mark.parametrize("act", [None, nn.GELU(), nn.GELU("tanh")])
def test_linear_layers_of_onednn(act: nn.GELU | None, monkeypatch) -> None:
    layer, x = nn.Linear(8, 12), torch.randn(2, 3, 5, 8).transpose(1, 2)
    fast = CpuLinear(layer, frozen=True)
    for dtype in onednn_types():
        for _ in range(2):
            mixed = torch.autocast("cpu", dtype, enabled=dtype != torch.float32)
            with torch.no_grad(), mixed, monkeypatch.context() as patch:
                expected = linear(x, layer.weight, layer.bias)
                expected = expected if act is None else act(expected)
                patch.delattr(nn.Linear, "forward")
                torch.testing.assert_close(
                    fast(x, act), expected, rtol=ROUNDING[dtype], atol=ROUNDING[dtype]
                )
                layer.weight += 1  # the second time with other weights
    assert copy.deepcopy(fast)(x).requires_grad
    layer.double()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert fast(x.double()).dtype == torch.float64
    with torch.no_grad(), pytest.raises(RuntimeError, match="dtype"):
        fast(x)


@pytest.mark.parametrize("training", [True, False])
def test_wrong_widths_are_told_by_pytorch(training: bool) -> None:
    with torch.set_grad_enabled(training), pytest.raises(RuntimeError, match="2x7 and 8x12"):
        CpuLinear(nn.Linear(8, 12))(torch.randn(2, 7))


def test_linear_layers_compile_without_a_warning() -> None:
    layer, x = Mlp(4, 6), torch.randn(2, 4)
    layer.fc1.forward, layer.fc2.forward = CpuLinear(layer.fc1), CpuLinear(layer.fc2)
    layer.forward = partial(feed_forward, layer)
    torch.compiler.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("error", message="Dynamo detected a call")
        out = torch.compile(layer, backend="eager", fullgraph=True)(x)
        torch.testing.assert_close(out, layer(x))


def gradients(layer: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor | None]]:
    layer.zero_grad()
    x = x.detach().requires_grad_()
    out = layer(x)
    (out * torch.linspace(-1, 1, out.shape[-1])).sum().backward()
    return out.detach(), [x.grad, *(parameter.grad for parameter in layer.parameters())]


LAYERS = {
    "bias": lambda: nn.Linear(6, 10),
    "no bias": lambda: nn.Linear(6, 10, bias=False),
    "bias of queries and values": lambda: QueryValueBias(6),
    "one row": lambda: nn.Linear(6, 1),
}


@pytest.mark.parametrize("shape", [(6,), (0, 6), (1, 6), (2, 3, 5, 6)], ids=str)
@pytest.mark.parametrize("frozen", [(), ("weight",), ("bias",), ("weight", "bias")], ids=str)
@pytest.mark.parametrize("kind", LAYERS)
def test_gradients_are_those_of_pytorch(
    kind: str, frozen: tuple, shape: tuple, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    layer, x = LAYERS[kind](), torch.randn(*shape)
    for name, parameter in layer.named_parameters():
        nn.init.normal_(parameter).requires_grad_(name not in frozen)
    expected = gradients(layer, x)
    optimize_for_training(layer)
    with monkeypatch.context() as patch:
        if x.numel():  # without rows, PyTorch's own runs
            patch.delattr(type(layer), "forward")
        found = gradients(layer, x)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_transposed_inputs_and_gradients() -> None:
    layer, x = nn.Linear(6, 10), torch.randn(4, 6, 3, requires_grad=True)
    optimize_for_training(layer)
    found = torch.autograd.grad(layer(x.mT).mT.exp().sum(), [x, layer.weight])
    expected = linear(x.mT, layer.weight, layer.bias).mT.exp().sum()
    torch.testing.assert_close(found, torch.autograd.grad(expected, [x, layer.weight]))


def test_autocast_and_other_types_are_pytorchs() -> None:
    layer, x = nn.Linear(6, 10), torch.randn(2, 6)
    optimize_for_training(layer)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    assert torch.autograd.gradgradcheck(layer.double(), x.double().requires_grad_())


def test_a_second_derivative_is_an_error() -> None:
    layer, x = nn.Linear(6, 10), torch.randn(2, 6, requires_grad=True)
    optimize_for_training(layer)
    (first,) = torch.autograd.grad(layer(x).exp().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_only_plain_layers_change_and_models_are_copied_and_saved() -> None:
    model = nn.Sequential(Mlp(4, 6), Mlp(4, 6))
    add_lora(model[0], rank=1, layers=["fc1"])
    names = list(model.state_dict())
    optimize_for_training(model)
    changed = [name for name, part in model.named_modules() if "forward" in vars(part)]
    assert changed == ["0.fc2", "1.fc1", "1.fc2"]
    assert list(model.state_dict()) == names
    x = torch.randn(2, 4)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(other(x), model(x))
        assert other[1].fc1.forward.linear is other[1].fc1


@pytest.mark.parametrize("autocast", [False, True])
@torch.no_grad()
def test_weights_that_change_in_training_are_used(autocast: bool) -> None:
    """As MMEngine's EMAHook changes them before it validates: without a new version."""
    model = nn.Sequential(nn.Linear(64, 32))
    optimize_for_training(model)
    x = torch.randn(5, 64)
    if not autocast:
        model, x = model.bfloat16(), x.bfloat16()
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            found = model(x)
            expected = nn.functional.linear(x, model[0].weight, model[0].bias)
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
        model[0].weight.data.copy_(-model[0].weight)

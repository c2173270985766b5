"""Linear layers in oneDNN: the results of PyTorch's own, with and without gradients."""

import copy
import io
import pickle
import warnings
import weakref
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mmvidformer.layers import Mlp
from mmvidformer.layers.linear import QueryValueBias, add_lora
from mmvidformer.models.fast import onednn
from mmvidformer.models.fast.onednn import (
    CpuLinear,
    feed_forward,
    multiply_in_onednn,
    onednn_types,
)
from tests.models.tiny import needs_one_graph

ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 2e-2}

pytestmark = pytest.mark.skipif(not onednn_types(), reason="PyTorch was built without oneDNN")


@pytest.fixture(autouse=True)
def in_onednn(monkeypatch) -> None:
    """Multiply in oneDNN on all processors."""
    monkeypatch.setattr(onednn, "mkl_is_fast", lambda: False)


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


@torch.no_grad()
@pytest.mark.parametrize(
    ("rows", "frozen", "copies"), [(64, True, 1), (65, True, 0), (64, False, 0)]
)
def test_few_rows_of_frozen_layers_read_copied_weights(rows, frozen, copies, monkeypatch) -> None:
    made = []
    copy_weight = onednn.ONEDNN._reorder_linear_weight
    packets = SimpleNamespace(
        _linear_pointwise=onednn.ONEDNN._linear_pointwise,
        _reorder_linear_weight=lambda *args: made.append(1) or copy_weight(*args),
    )
    layer = nn.Linear(32, 48)
    fast, x = CpuLinear(layer, frozen), torch.randn(1, rows, 32)
    onednn_types()
    monkeypatch.setattr(onednn, "ONEDNN", packets)
    for _ in range(2):  # the second time with other weights
        torch.testing.assert_close(fast(x), linear(x, layer.weight, layer.bias))
        fast(x)
        layer.weight += 1
    assert len(made) == 2 * copies


@pytest.mark.parametrize("training", [True, False])
def test_wrong_widths_are_told_by_pytorch(training: bool) -> None:
    with torch.set_grad_enabled(training), pytest.raises(RuntimeError, match="2x7 and 8x12"):
        CpuLinear(nn.Linear(8, 12))(torch.randn(2, 7))


@needs_one_graph
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
    multiply_in_onednn(layer)
    with monkeypatch.context() as patch:
        if x.numel():  # without rows, PyTorch's own runs
            patch.delattr(type(layer), "forward")
        found = gradients(layer, x)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_transposed_inputs_and_gradients() -> None:
    layer, x = nn.Linear(6, 10), torch.randn(4, 6, 3, requires_grad=True)
    multiply_in_onednn(layer)
    found = torch.autograd.grad(layer(x.mT).mT.exp().sum(), [x, layer.weight])
    expected = linear(x.mT, layer.weight, layer.bias).mT.exp().sum()
    torch.testing.assert_close(found, torch.autograd.grad(expected, [x, layer.weight]))


def test_autocast_and_other_types_are_pytorchs() -> None:
    layer, x = nn.Linear(6, 10), torch.randn(2, 6)
    multiply_in_onednn(layer)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    assert torch.autograd.gradgradcheck(layer.double(), x.double().requires_grad_())


def optimized_pair() -> tuple[nn.Sequential, nn.Sequential]:
    """The same layers as PyTorch and as oneDNN compute them."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 10), nn.GELU(), nn.Linear(10, 3))
    optimized = copy.deepcopy(model)
    multiply_in_onednn(optimized)
    return model, optimized


def test_second_derivatives_are_those_of_pytorch() -> None:
    """As those of a gradient penalty."""
    x, penalties = torch.randn(4, 6, requires_grad=True), []
    for model in optimized_pair():
        (first,) = torch.autograd.grad(model(x).exp().sum(), x, create_graph=True)
        penalties.append(torch.autograd.grad(first.norm(), [x, *model.parameters()][:-1]))
    torch.testing.assert_close(penalties[1], penalties[0])


def test_torch_func_computes_the_same() -> None:
    x, tangents = torch.randn(2, 4, 6)
    answers = []
    for model in optimized_pair():
        weights = dict(model.named_parameters())

        def loss(weights: dict, row: Tensor, model: nn.Module = model) -> Tensor:
            return torch.func.functional_call(model, weights, row).square().sum()

        of_each_row = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, x)
        answers.append((of_each_row, torch.func.jvp(model, (x,), (tangents,))))
    torch.testing.assert_close(answers[1], answers[0])


def test_forward_mode_derivatives_are_those_of_pytorch() -> None:
    x, tangents = torch.randn(2, 4, 6)
    answers = []
    for model in optimized_pair():
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, tangents)
            answers.append(torch.autograd.forward_ad.unpack_dual(model(dual)).tangent)
    torch.testing.assert_close(answers[1], answers[0])


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("gradients", [False, True])
def test_traced_layers_are_saved_and_compute_the_same(frozen: bool, gradients: bool) -> None:
    layer, x, file = nn.Linear(6, 10), torch.randn(4, 6), io.BytesIO()
    expected = layer(x)
    layer.forward = CpuLinear(layer, frozen)
    with torch.set_grad_enabled(gradients):
        torch.jit.save(torch.jit.trace(layer, x), file)
        file.seek(0)
        torch.testing.assert_close(torch.jit.load(file)(x), expected)


def test_a_frozen_layer_keeps_no_input_for_the_backward_pass() -> None:
    layer, x = nn.Linear(6, 10), torch.randn(4, 6, requires_grad=True)
    layer.weight.requires_grad_(False)
    multiply_in_onednn(layer)
    hidden = x * 2
    still_there = weakref.ref(hidden)
    out = layer(hidden)
    del hidden
    assert still_there() is None
    out.sum().backward()
    torch.testing.assert_close(x.grad, (2 * layer.weight.sum(0)).expand(4, 6))


def test_only_plain_layers_change_and_models_are_copied_and_saved() -> None:
    model = nn.Sequential(Mlp(4, 6), Mlp(4, 6))
    add_lora(model[0], rank=1, layers=["fc1"])
    names = list(model.state_dict())
    multiply_in_onednn(model)
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
    multiply_in_onednn(model)
    x = torch.randn(5, 64)
    if not autocast:
        model, x = model.bfloat16(), x.bfloat16()
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            found = model(x)
            expected = nn.functional.linear(x, model[0].weight, model[0].bias)
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
        model[0].weight.data.copy_(-model[0].weight)

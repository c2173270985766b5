import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mmvidformer.layers import Mlp
from mmvidformer.models.fast.recompute import recompute


def test_two_layers_with_an_activation_in_between() -> None:
    mlp = Mlp(4, 6)
    x = torch.randn(2, 5, 4)
    torch.testing.assert_close(mlp(x), mlp.fc2(F.gelu(mlp.fc1(x))))


def test_depthwise_convolution_reads_the_eight_neighbors_in_the_frame() -> None:
    torch.manual_seed(0)
    mlp = Mlp(4, 6, depthwise=True)
    conv = mlp.depthwise.conv
    x = torch.randn(2, 3, 4, 5, 4)
    hidden = mlp.fc1(x)
    mixed = torch.zeros_like(hidden)
    padded = F.pad(hidden, (0, 0, 1, 1, 1, 1))
    for i in range(3):
        for j in range(3):
            mixed += padded[:, :, i : i + 4, j : j + 5] * conv.weight[:, 0, i, j]
    expected = mlp.fc2(F.gelu(mixed + conv.bias))
    torch.testing.assert_close(mlp(x), expected, atol=1e-5, rtol=1e-5)


def test_depthwise_convolution_refuses_a_class_token() -> None:
    with pytest.raises(RuntimeError, match="permute"):
        Mlp(4, 6, depthwise=True)(torch.zeros(2, 1, 4))


def test_unknown_activation_is_named() -> None:
    with pytest.raises(KeyError, match="'relu6'.*gelu_tanh"):
        Mlp(4, 6, act="relu6")


@pytest.mark.parametrize(
    ("drop", "again", "copies"),
    [(0.0, "activations", 1), (0.5, "activations", 1), (0.0, False, 2)],
)
def test_copies_of_the_hidden_layer_and_gradients(
    drop: float, again: bool | str, copies: int
) -> None:
    torch.manual_seed(0)
    mlp = Mlp(8, 32, drop=drop).train()
    recompute(mlp, again)
    x = torch.randn(2, 5, 8, requires_grad=True)
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    variables = [x, *mlp.parameters()]
    torch.manual_seed(1)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = mlp(x)
    found = torch.autograd.grad(out.square().sum(), variables)
    torch.manual_seed(1)
    dropout = nn.Dropout(drop)
    plain = dropout(mlp.fc2(dropout(mlp.act(mlp.fc1(x)))))
    expected = torch.autograd.grad(plain.square().sum(), variables)
    torch.testing.assert_close(out, plain, atol=0, rtol=0)
    torch.testing.assert_close(found, expected)
    hidden = 2 * 5 * 32 * 4
    assert sum(size == hidden for size in kept.values()) == copies

"""What HORST's layer keeps in memory."""

import copy
import gc

import pytest
import torch
from torch import Tensor, nn

from mmvidformer.models.fast.recompute import copy_again
from mmvidformer.models.horst.layer import HorstLayer
from mmvidformer.models.horst.necks import Horst
from mmvidformer.models.horst.statt import ATTENTIONS, States
from tests.models.horst.test_layer import gradients, make


def test_checkpointing_has_the_same_gradients() -> None:
    clip = torch.randn(2, 4, 3, 4, 4)
    found = []
    for with_cp in (False, True):
        model = make(Horst, 3, [4, 8], [1, 2], with_cp=with_cp).train()
        output = model(clip, torch.tensor([4, 2]))[0]
        found.append(gradients(model, output, [torch.ones_like(part) for part in output]))
    for name, grad in found[0].items():
        torch.testing.assert_close(found[1][name], grad)


def test_no_state_is_stored_on_the_module() -> None:
    model = make(Horst, 3, [4])
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    model.step(torch.randn(1, 3, 4, 4))
    model(torch.randn(2, 3, 3, 8, 8))
    for name, module in model.named_modules():
        assert vars(module).keys() == before[name].keys()


def test_state_of_a_stream_is_bounded() -> None:
    model = make(Horst, 3, [4, 4], order=3).eval()
    states, sizes = None, []
    with torch.no_grad():
        for _ in range(8):
            _, states = model.step(torch.randn(1, 3, 4, 4), states)
            sizes.append(sum(x.numel() for state in states for x in state[1:]))
    assert sizes == [2 * 3 * (4 + 4 + 1) * 16] * 8


def test_memory_of_training_does_not_grow_with_the_order() -> None:
    kept = {order: count_kept_maps(order) for order in (1, 8, 16)}
    assert max(kept.values()) < 26  # a layer that keeps its states has 47 of order 8
    assert max(kept.values()) - min(kept.values()) < 0.5


def count_kept_maps(order: int, steps: int = 16) -> float:
    """Maps (C, h, w) for each step that the backward pass keeps, in autograd or in Python."""
    layer = HorstLayer(32, 32, order=order)
    copy_again(layer)
    clip = torch.randn(2, steps, 32, 7, 7, requires_grad=True)
    saved: list[Tensor] = []
    before = {x.data_ptr() for x in list_storages()}
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        loss = layer(clip)[0].y.sum()
    assert loss.requires_grad
    storages = [*list_storages(), *(x.untyped_storage() for x in saved)]
    sizes = {x.data_ptr(): x.nbytes() for x in storages if x.data_ptr() not in before}
    return sum(sizes.values()) / clip.untyped_storage().nbytes()


def list_storages() -> list:
    gc.collect()
    tensors = [x for x in gc.get_objects() if type(x) in (Tensor, nn.Parameter)]
    return [x.untyped_storage() for x in tensors if not x.is_meta]


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_gradients_of_what_is_computed_again(attention: str) -> None:
    torch.manual_seed(0)
    plain = HorstLayer(8, 8, order=3, attention=attention).double()
    again = copy.deepcopy(plain)
    copy_again(again)
    clip = torch.randn(2, 9, 8, 4, 4, dtype=torch.float64)
    _, state = plain(clip[:, :4])
    gradients = []
    for layer in (plain, again):
        start = States(
            state.steps, *(None if x is None else x.detach().requires_grad_() for x in state[1:])
        )
        output, end = layer(clip[:, 4:], None, start)
        loss = output.y.square().sum() + end.key.square().sum()
        wanted = [*layer.parameters(), start.key, start.value]
        gradients.append(torch.autograd.grad(loss, wanted, allow_unused=True))
    for first, second in zip(*gradients, strict=True):
        assert (first is None) == (second is None)
        if first is not None:
            torch.testing.assert_close(first, second)

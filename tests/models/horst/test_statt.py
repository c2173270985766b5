"""The attention and its ablations compared with their formulas; letters as in the module."""

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.horst import ring
from lab.horst import maps_by_age
from mmvidformer.models.horst.statt import ATTENTIONS, Entry

B, S, C, H, W = 2, 3, 4, 3, 5


def case(
    name: str, scale_by_area: bool = True, heads: int = 1
) -> tuple[torch.nn.Module, Tensor, list[Entry]]:
    torch.manual_seed(0)
    attend = ATTENTIONS[name](C, heads, scale_by_area)
    q = torch.randn(B, C, H, W)
    maps = torch.randn(2, S, B, C, H, W)
    return attend, q, [attend.remember(*pair) for pair in maps.unbind(1)]


def by_hand(name: str, attend, q: Tensor, entries: list[Entry], area: bool) -> Tensor:
    """Equations 4 to 7, place by place and state by state."""
    out = torch.zeros_like(q)
    for b in range(B):
        logits, weighted = [], []
        for entry in entries:
            key, gate = entry.key[b], attend.filter(entry.key[b : b + 1])[0]
            pooled = (gate * q[b]).flatten(1).mean(1)
            places = torch.sigmoid((pooled[:, None, None] * key).sum(0))
            weighted.append(entry.value[b] * (1 if name == "temporal" else places))
            own = attend.states.filter(q[b : b + 1])[0] if name != "spatial" else 0
            logits.append((own * q[b] * gate * key).sum() / (C * (H * W if area else 1)) ** 0.5)
        weights = torch.stack(logits).exp()
        weights = torch.full((S,), 1 / S) if name == "spatial" else weights / weights.sum()
        out[b] = sum(w * v for w, v in zip(weights, weighted, strict=True))
    return out


@pytest.mark.parametrize("area", [True, False])
@pytest.mark.parametrize("name", ["space_time", "temporal", "spatial"])
def test_equations(name: str, area: bool) -> None:
    attend, q, entries = case(name, area)
    torch.testing.assert_close(attend(q, ring(entries)), by_hand(name, attend, q, entries, area))


@pytest.mark.parametrize("area", [True, False])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_heads_attend_each_with_its_channels(name: str, area: bool) -> None:
    attend, q, entries = case(name, area, heads=2)
    single = ATTENTIONS[name](C // 2, 1, area)
    single.load_state_dict(attend.state_dict())
    outs, maps, count = [], [], torch.tensor([2, 3])
    for half in (slice(0, C // 2), slice(C // 2, C)):
        own = [single.remember(entry.key[:, half], entry.value[:, half]) for entry in entries]
        states = ring(own)._replace(steps=count)
        outs.append(single(q[:, half], states))
        maps.append(None if name == "joint" else maps_by_age(single, q[:, half], states))
    states = ring(entries)._replace(steps=count)
    torch.testing.assert_close(attend(q, states), torch.cat(outs, 1))
    if name != "joint":
        means = tuple(torch.stack(pair).mean(0) for pair in zip(*maps, strict=True))
        torch.testing.assert_close(maps_by_age(attend, q, states), means)


class Multiplications(TorchDispatchMode):
    """Counts the multiplications of pairs of elements, but for those of matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if function is torch.ops.aten.mul.Tensor and all(isinstance(x, Tensor) for x in args):
            self.count += out.numel()
        return out


@pytest.mark.parametrize("count", [1, 3, 8])
def test_operations_are_those_of_the_paper(count: int) -> None:
    """Page 3: ``(6 S + 1) C H W + 18 (S + 1) H W``; ``2 S (H W)^2 C`` for joint attention."""

    def operations(name: str) -> int:
        attend = ATTENTIONS[name](C, 1, False)
        q, *maps = torch.randn(1 + 2 * count, 1, C, H, W).unbind()
        with FlopCounterMode(display=False) as products, Multiplications() as pairs:
            pairs_of_maps = zip(maps[::2], maps[1::2], strict=True)
            attend(q, ring([attend.remember(key, value) for key, value in pairs_of_maps]))
        return products.get_total_flops() // 2 + pairs.count

    area = H * W
    assert operations("space_time") == (6 * count + 1) * C * area + 18 * (count + 1) * area
    assert operations("joint") == 2 * count * area**2 * C


def test_joint_is_one_softmax_over_all_places_of_all_states() -> None:
    attend, q, entries = case("joint")
    keys, values = (torch.stack([entry[i] for entry in entries], 1) for i in (0, 1))
    logits = torch.einsum("bchw,bscxy->bhwsxy", q, keys).flatten(3) / C**0.5
    weights = (logits.exp() / logits.exp().sum(-1, keepdim=True)).unflatten(3, (S, H, W))
    expected = torch.einsum("bhwsxy,bscxy->bchw", weights, values)
    torch.testing.assert_close(attend(q, ring(entries)), expected)
    assert not list(attend.parameters())


@pytest.mark.parametrize("name", ["space_time", "temporal", "spatial"])
def test_maps_are_the_weights_of_the_output(name: str) -> None:
    attend, q, entries = case(name)
    weights, places = maps_by_age(attend, q, ring(entries))
    assert weights.shape == (B, S) and places.shape == (B, S, H, W)
    torch.testing.assert_close(weights.sum(1), torch.ones(B))
    values = torch.stack([entry.value for entry in entries], 1)
    expected = torch.einsum("bs,bshw,bschw->bchw", weights, places, values)
    torch.testing.assert_close(attend(q, ring(entries)), expected)
    if name == "temporal":
        assert (places == 1).all()
    if name == "spatial":
        assert (weights == 1 / S).all()

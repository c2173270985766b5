"""Weights of states and places against the paper's equations, one number after the other."""

import math

import pytest
import torch
from torch import Tensor, nn

from mmvidformer.models.horst import Horst, RunningMean
from mmvidformer.visualization import watch_states

STEPS, ORDER = 6, 3


def filtered(convolve: nn.Module, x: Tensor) -> Tensor:
    """Eq. 4: weights (h, w) of the places of a map (C, h, w)."""
    return torch.sigmoid(convolve.conv(torch.stack([x.mean(0), x.max(0).values])[None]))[0, 0]


def brute_force(layer: nn.Module, q: Tensor, keys: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Eq. 5 and 6 for a query and keys (C, h, w)."""
    channels, height, width = q.shape
    size = q.numel() if layer.attend.states.scale_by_area else channels
    query = q * filtered(layer.attend.states.filter, q)
    places = torch.zeros(len(keys), height, width)
    products = []
    for s, key in enumerate(keys):
        gate = filtered(layer.attend.filter, key)
        pooled = [(gate * q[c]).sum() / (height * width) for c in range(channels)]
        for i in range(height):
            for j in range(width):
                dot = sum(pooled[c] * key[c, i, j] for c in range(channels))
                places[s, i, j] = 1 / (1 + math.exp(-dot))
        products.append(math.exp((query * gate * key).sum() / math.sqrt(size)))
    return torch.tensor(products) / sum(products), places


@pytest.mark.parametrize("layer", [0, -1])
@pytest.mark.parametrize("variant", ["official", "paper"])
@torch.no_grad()
def test_weights_are_those_of_the_equations(variant: str, layer: int) -> None:
    torch.manual_seed(0)
    neck = Horst(5, [6, 8], strides=[1, 2], order=ORDER, variant=variant).eval()
    frames = 3 * torch.randn(STEPS, 1, 5, 6, 8)
    watched = neck.layers[layer]
    inputs = frames if layer == 0 else neck.layers[0](frames[:, 0][None])[0].y[0][:, None]
    output, _ = watched(inputs[:, 0][None])
    e, statt = output.e[0], output.statt[0]
    q = watched.query(e)
    h = watched.readout.state(e, statt)
    first = e if variant == "official" else q
    keys = watched.key.norm(watched.key.conv(torch.cat([first, h], dim=1)))
    states = None
    with watch_states(neck, layer) as watch:
        assert watch.order == ORDER
        for t in range(STEPS):
            _, states = neck.step(frames[t], states)
            if t == 0:
                assert watch.latest is None
                continue
            weights, places = brute_force(watched, q[t], list(keys[max(0, t - ORDER) : t]))
            found = watch.latest
            torch.testing.assert_close(found.states, weights, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(found.places, places, atol=1e-5, rtol=1e-5)
            seen = sum(w * p for w, p in zip(weights, places, strict=True))
            torch.testing.assert_close(found.seen, seen, atol=1e-5, rtol=1e-5)
    assert found.states.max() > 1.1 / ORDER and found.places.std() > 0.01  # they do differ
    neck.step(frames[0])
    assert watch.latest is found  # nothing is noted any more


def test_what_has_no_such_weights_is_told() -> None:
    def enter(neck: nn.Module, layer: int = -1) -> None:
        with watch_states(neck, layer):
            pass

    with pytest.raises(ValueError, match="no layer 2 among the 2"):
        enter(Horst(4, [4, 4]), 2)
    with pytest.raises(ValueError, match="JointStatt of Horst has no weights of states"):
        enter(Horst(4, [4], attention="joint"))
    with pytest.raises(ValueError, match="of RunningMean has no weights of states"):
        enter(RunningMean(4, [4]))
    neck = Horst(4, [4])
    with watch_states(neck), pytest.raises(ValueError, match=r"not \(1, 2\)"):
        neck(torch.randn(1, 2, 4, 4, 4))

"""Weights of states and places against the paper's equations, number by number."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from benchmarks.running_mean import RunningMean
from lab.horst import LookBack, StateWeights, look_back, watch_states
from lab.plot.horst import to_strip
from mmvidformer.apis import StreamFrame
from mmvidformer.models import Horst

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
    exponentials = []
    for s, key in enumerate(keys):
        gate = filtered(layer.attend.filter, key)
        pooled = [(gate * q[c]).sum() / (height * width) for c in range(channels)]
        for i in range(height):
            for j in range(width):
                dot = sum(pooled[c] * key[c, i, j] for c in range(channels))
                places[s, i, j] = 1 / (1 + math.exp(-dot))
        exponentials.append(math.exp((query * gate * key).sum() / math.sqrt(size)))
    return torch.tensor(exponentials) / sum(exponentials), places


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
        for t in range(STEPS):
            _, states = neck.step(frames[t], states)
            if t == 0:
                assert watch[0] is None
                continue
            weights, places = brute_force(watched, q[t], list(keys[max(0, t - ORDER) : t]))
            found = watch[0]
            torch.testing.assert_close(found.states, weights, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(found.places, places, atol=1e-5, rtol=1e-5)
            seen = sum(w * p for w, p in zip(weights, places, strict=True))
            torch.testing.assert_close(found.seen, seen, atol=1e-5, rtol=1e-5)
    assert found.states.max() > 1.1 / ORDER and found.places.std() > 0.01  # they do differ
    neck.step(frames[0])
    assert watch[0] is found  # no longer recorded


def test_layers_without_such_weights_are_refused() -> None:
    def enter(neck: nn.Module, layer: int = -1) -> None:
        with watch_states(neck, layer):
            pass

    with pytest.raises(ValueError, match="index of the neck's 2 layers, got 2"):
        enter(Horst(4, [4, 4]), 2)
    with pytest.raises(ValueError, match="JointStatt of Horst has no weights of states"):
        enter(Horst(4, [4], attention="joint"))
    with pytest.raises(ValueError, match="of RunningMean has no weights of states"):
        enter(RunningMean(4, [4]))


def frame(number: int) -> StreamFrame:
    """A gray frame of 40 x 60 pixels."""
    inputs = torch.full((1, 3, 1, 40, 60), 60 * number, dtype=torch.uint8)
    return StreamFrame(number, number / 4, inputs)


def test_strips_show_the_past_by_weight() -> None:
    places = torch.zeros(2, 2, 2)
    places[1, 0, 0] = 1.0  # only the upper left place of the second state counts
    weights = StateWeights(torch.tensor([0.2, 0.8]), places)
    found = LookBack(frame(3), [frame(1), frame(2)], weights)
    strip = to_strip(found, "title")
    assert strip.captions == ["0.25 s, weight 0.20", "0.50 s, weight 0.80", "0.75 s (current)"]
    corners = strip.heat[:, 0, 0].tolist(), strip.heat[:, -1, -1].tolist()
    assert corners == (pytest.approx([0, 1, 0.8]), [0, 0, 0])


def test_frames_of_the_states_are_kept() -> None:
    neck = Horst(3, [4], order=2).eval()

    def steps(source: list[StreamFrame], restart: float | None):
        states = None
        for i, one in enumerate(source):
            states = None if restart and i % restart == 0 else states
            _, states = neck.step(one.inputs[:, :, 0].float() / 255, states)
            yield one

    class Recognizer:
        model = SimpleNamespace(neck=neck)

        def __init__(self, restart: int | None) -> None:
            self.restart = restart

        def frame_by_frame(self, source):
            return steps(source, self.restart)

    for restart, expected in ((None, [0, 1, 2, 2, 2]), (3, [0, 1, 2, 0, 1])):
        found = list(look_back(Recognizer(restart), [frame(i) for i in range(5)]))
        assert [len(one.past) for one in found] == expected
        for number, one in enumerate(found):
            numbers = range(number - len(one.past), number)
            assert [past.number for past in one.past] == list(numbers)
            assert (one.attention is None) == (not one.past)

"""Forms and variants of the layer; ``test_golden`` compares it with the official code."""

import copy
import itertools
import pickle
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from lab.horst import maps_by_age
from mmvidformer.models.horst.layer import KEY_VALUE, VARIANTS, HorstLayer, HorstOutput
from mmvidformer.models.horst.necks import Horst
from mmvidformer.models.horst.statt import ATTENTIONS, States

FORMS = list(itertools.product(VARIANTS, ATTENTIONS, KEY_VALUE))


def attention_maps(layer: HorstLayer, x: Tensor, state: States) -> tuple[Tensor, Tensor]:
    """Weights of the states, oldest first, and of their places, of a time step."""
    return maps_by_age(layer.attend, layer.query(layer.encode(layer.pool(x))), state)


def make(cls: type[nn.Module] = Horst, *args: object, **kwargs: object) -> nn.Module:
    """Build a model, and draw parameters that are initialized to zero or one too."""
    torch.manual_seed(0)
    model = cls(*args, **kwargs)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, float("norm.weight" in name), 0.3)
    return model


def step_by_step(model: nn.Module, clip: Tensor, lengths: Tensor) -> HorstOutput:
    state, outputs = None, []
    for t, frame in enumerate(clip.unbind(1)):
        output, state = model.step(frame, state)
        active = (lengths > t)[:, None, None, None]
        outputs.append(HorstOutput(*(part * active for part in output)))
    return HorstOutput(*(torch.stack(part, dim=1) for part in zip(*outputs, strict=True)))


def gradients(model: nn.Module, output: HorstOutput, weights: list[Tensor]) -> dict[str, Tensor]:
    model.zero_grad()
    sum((part * weight).sum() for part, weight in zip(output, weights, strict=True)).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("variant, attention, key_value", FORMS)
def test_streaming_equals_the_clip_with_lengths_and_gradients(
    variant: str, attention: str, key_value: str
) -> None:
    """Two layers of different widths and strides, more time steps than states, odd maps."""
    options = {"variant": variant, "attention": attention, "key_value": key_value}
    model = make(Horst, 3, [4, 8], [1, 2], order=3, **options).train()
    clip, lengths = torch.randn(2, 6, 3, 6, 5), torch.tensor([6, 4])
    output = model(clip, lengths)[0]
    weights = [torch.randn_like(part) for part in output]
    single = step_by_step(model, clip, lengths)
    for a, b in zip(single, output, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
        assert not b[1, 4:].any() and b[1, :4].any()
    expected = gradients(model, output, weights)
    for name, grad in gradients(model, single, weights).items():
        assert grad is not None, f"{name} has no gradient"
        torch.testing.assert_close(grad, expected[name], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("variant, attention, key_value", FORMS)
def test_clip_equals_the_straightforward_form(
    variant: str, attention: str, key_value: str, benchmark: ModuleType
) -> None:
    """Projecting all remembered states at each time step has the same output and gradients."""
    options = {"variant": variant, "attention": attention, "key_value": key_value}
    layer = make(HorstLayer, 3, 4, stride=2, order=2, **options)
    clip = torch.randn(2, 5, 3, 6, 8)
    expected, y = benchmark.straightforward(layer, clip), layer(clip)[0].y
    torch.testing.assert_close(y, expected, atol=1e-5, rtol=1e-5)
    weight = torch.randn_like(y)
    parameters = list(layer.parameters())
    for a, b in zip(
        torch.autograd.grad((y * weight).sum(), parameters),
        torch.autograd.grad((expected * weight).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_states_are_projected_once_and_all_else_at_once() -> None:
    """Batch sizes of each part for six time steps of two clips, after a state of zeros."""
    layer = make(HorstLayer, 3, 4, order=3)
    rows: dict[str, list[int]] = {}
    for name in ("encode", "query", "key", "value", "readout"):
        part = getattr(layer, name)
        part.register_forward_hook(
            lambda _, inputs, output, name=name: rows.setdefault(name, []).append(len(output))
        )
    layer(torch.randn(2, 6, 3, 4, 4))
    assert rows["encode"] == rows["query"] == rows["readout"] == [12]
    assert rows["key"] == rows["value"] == [1] + 6 * [2]


@pytest.mark.parametrize("variant", VARIANTS)
def test_clip_in_two_parts(variant: str) -> None:
    model = make(Horst, 3, [4], order=2, variant=variant)
    clip = torch.randn(1, 7, 3, 4, 4)
    whole = model(clip)[0].y
    first, states = model(clip[:, :4])
    second, states = model(clip[:, 4:], states=states)
    torch.testing.assert_close(torch.cat([first.y, second.y], dim=1), whole)
    assert [state.steps.tolist() for state in states] == [[7]]


def test_order_limits_how_far_a_layer_looks_back() -> None:
    """A layer of order 2 attends to two states, which depend on earlier ones."""
    layer = make(HorstLayer, 3, 4, order=2, variant="official", key_value="e|h")
    clip = torch.randn(1, 5, 3, 4, 4)
    states = layer(clip[:, :4])[1]
    assert states.key.shape[:2] == (1, 2)
    other = layer(clip[:, 2:4])[1]
    # Keys are computed from e alone, so those of the last two frames do not depend on earlier
    # frames; values do.
    torch.testing.assert_close(states.key, other.key)
    for slot in range(2):
        assert not torch.allclose(states.value[:, slot], other.value[:, slot])


def test_first_step_attends_to_zeros_which_are_then_dropped() -> None:
    """The first STATT is a weighted bias of the value's norm, which is initialized to zero.

    After the first step there is one state, not two; its softmax weight is 1.
    """
    torch.manual_seed(0)
    layer = HorstLayer(3, 4)
    frames = torch.randn(1, 2, 3, 4, 4)
    output, state = layer.step(frames[:, 0])
    assert not output.statt.any()
    assert state.steps.tolist() == [1]
    weights, places = attention_maps(layer, frames[:, 1], state)
    torch.testing.assert_close(weights, torch.ones(1, 1))
    torch.testing.assert_close(layer.step(frames[:, 1], state)[0].statt, state.value[:, 0] * places)


def test_padding_and_other_clips_have_no_influence() -> None:
    model = make(Horst, 3, [4, 4], order=3)
    clip = torch.randn(2, 6, 3, 4, 4)
    lengths = torch.tensor([6, 3])
    expected = model(clip, lengths)[0].y
    other = clip.clone()
    other[1, 3:] = 100.0
    torch.testing.assert_close(model(other, lengths)[0].y, expected)
    alone = model(clip[1:, :3])[0].y
    torch.testing.assert_close(alone, expected[1:, :3], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_slots_that_are_not_filled_are_ignored(attention: str) -> None:
    """Of two clips, which have seen one and two frames."""
    layer = make(HorstLayer, 3, 4, order=3, attention=attention)
    frame, clip = torch.randn(2, 3, 4, 4), torch.randn(2, 2, 3, 4, 4)
    one, two = (layer(clip[:, :length])[1] for length in (1, 2))
    mixed = type(two)(
        *(x if x is None else torch.stack([x[0], y[1]]) for x, y in zip(one, two, strict=True))
    )
    for x in mixed[1:]:
        if x is not None:
            x[0, 1:], x[1, 2:] = 100.0, 100.0
    found = layer.step(frame, mixed)[0].y
    for i, past in enumerate((one, two)):
        torch.testing.assert_close(found[i], layer.step(frame, past)[0].y[i], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("attention", ATTENTIONS)
@torch.no_grad()
def test_states_are_results_that_later_steps_leave_alone(attention: str) -> None:
    layer = make(HorstLayer, 3, 4, order=2, attention=attention)
    frames, state = torch.randn(2, 1, 3, 4, 4), layer(torch.randn(1, 3, 3, 4, 4))[1]
    before = copy.deepcopy(state)
    found = [layer.step(frame, state)[0].y for frame in (*frames, frames[0])]
    torch.testing.assert_close(state, before, rtol=0, atol=0)
    torch.testing.assert_close(found[2], found[0], rtol=0, atol=0)
    assert not torch.allclose(found[1], found[0])
    loaded = pickle.loads(pickle.dumps(state))
    torch.testing.assert_close(layer.step(frames[0], loaded)[0].y, found[0])


def test_weights_of_states_are_oldest_first() -> None:
    layer = make(HorstLayer, 3, 4, order=3)
    clip, frame = torch.randn(1, 5, 3, 4, 4), torch.randn(1, 3, 4, 4)
    states = layer(clip)[1]
    weights, places = attention_maps(layer, frame, states)
    oldest = states.steps.item() % 3
    in_order = [x if x is None else x.roll(-oldest, dims=1) for x in states[1:]]
    ordered = type(states)(torch.tensor([3]), *in_order)
    torch.testing.assert_close(attention_maps(layer, frame, ordered), (weights, places))
    assert oldest == 2 and weights.unique().numel() == 3


@pytest.mark.parametrize(
    "in_channels, channels, live, dead",
    [
        (1024, 1024, 76033318, 79183142),
        (512, 512, 19011238, 19799718),
        (128, 128, 1189318, 1238982),
        (128, 256, 4164454, 4362086),
        (256, 512, 16651942, 17440422),
    ],
)
def test_parameters(in_channels: int, channels: int, live: int, dead: int) -> None:
    """Without and with two official layers that are never used: 3 C^2 + 4 C more."""
    with torch.device("meta"):
        layer = HorstLayer(in_channels, channels)
    count = sum(parameter.numel() for parameter in layer.parameters())
    assert count == live == dead - 3 * channels**2 - 4 * channels
    formula = 9 * in_channels * channels + 9 * (in_channels + channels) * channels
    assert count == formula + 45.5 * channels**2 + 11.25 * channels + 38


def test_early_recognition_net_builds_and_trains() -> None:
    """The paper's widths, which the official class does not support; then a small network."""
    torch.manual_seed(0)
    with torch.device("meta"):
        net = Horst(128, [128, 256, 512, 512], [1, 1, 2, 2])
        assert net(torch.zeros(1, 3, 128, 56, 56))[0].y.shape == (1, 3, 512, 14, 14)
    small = Horst(8, [8, 16, 32, 32], [1, 1, 2, 2])
    optimizer = torch.optim.Adam(small.parameters(), lr=1e-2)
    clip, target = torch.randn(2, 3, 8, 8, 8), torch.tensor([0, 1])
    losses = []
    for _ in range(8):
        logits = small(clip)[0].y[:, -1].mean((-2, -1))
        loss = nn.functional.cross_entropy(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"variant": "v2"}, "no HORST variant named 'v2'"),
        ({"attention": "full"}, "no HORST attention named 'full'"),
        ({"key_value": "h"}, "no HORST key_value named 'h'"),
        ({"order": 0}, "order .* at least 1, got 0"),
        ({"num_heads": 3}, r"num_heads \(3\) must divide the channels \(4\)"),
        ({"channels": []}, r"got channels \[\]"),
        ({"strides": [1, 2]}, r"strides \[1, 2\]"),
    ],
)
def test_wrong_arguments(options: dict, message: str) -> None:
    with pytest.raises((KeyError, ValueError), match=message):
        Horst(**{"in_channels": 3, "channels": [4], **options})

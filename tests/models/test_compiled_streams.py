"""``torch.compile(model.step)``: one graph for the first step and one for all others.

A past without a bound takes one more, for the second step, after which its length is a variable.
Streams that step together take those of one and of several streams, not of each number.
"""

import copy
import pickle
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter
from torch.utils._pytree import tree_leaves

from mmvidformer.layers.stream import join_states, shapes_of, split_states
from mmvidformer.models import Horst, VideoTransformer
from tests.models.tiny import ARCH, STEM, needs_one_graph, perturb

pytestmark = needs_one_graph
STEPS = 40
BOUNDED = dict(type="causal_time", past=4)


def causal(**options: object) -> VideoTransformer:
    settings = dict(arch=ARCH, clip_len=STEPS, img_size=16, stem=STEM, pool="none")
    return VideoTransformer(**{**settings, **options})


def horst(**options: object) -> Horst:
    return Horst(3, [4, 8], [1, 2], order=3, **options)


MODELS = {
    "bounded": lambda: causal(
        block=[dict(pattern=BOUNDED), dict(pattern="space")], positions="space"
    ),
    "sink": lambda: causal(
        block=[dict(pattern=BOUNDED), dict(pattern="space")],
        positions="space",
        cls="sink",
        pool="cls",
    ),
    "horst": lambda: horst(),
    "table": lambda: causal(block=[dict(pattern="causal_time")], positions="time"),
    "joint, rotary": lambda: causal(
        block=[dict(pattern=dict(type="causal_joint", past=4))],
        positions="none",
        rope=dict(type="axial", axes="th"),
    ),
    "unbounded": lambda: causal(block=[dict(pattern="causal_time")], positions="space"),
    "unbounded, joint": lambda: causal(
        block=[dict(pattern="causal_joint"), dict(pattern="space")], positions="none", rope="eva02"
    ),
    "linear, fixed": lambda: causal(
        block=[dict(pattern="causal_time", kernel="linear")],
        positions=dict(type="joint", fixed="flat"),
    ),
    "frames, then time": lambda: causal(
        encoders=[dict(frames="pool", cls="mean"), dict(block=[dict(pattern=BOUNDED)])]
    ),
    "horst, joint": lambda: horst(attention="joint", num_heads=2),
    "horst, paper": lambda: horst(variant="paper"),
}
FAST = ("bounded", "unbounded", "horst")
NAMES = [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]


def frames(model: nn.Module) -> list[Tensor]:
    """Inputs of the steps of two streams."""
    torch.manual_seed(1)
    shape = (STEPS, 2, 3, 6, 4) if isinstance(model, Horst) else (STEPS, 2, 3, 1, 16, 16)
    return list(torch.randn(shape))


def tensors(state: Any) -> list[Tensor]:
    """What a state holds."""
    leaves = tree_leaves(getattr(state, "past", state))
    return [x for x in leaves if isinstance(x, Tensor)]


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_few_graphs_serve_a_whole_stream(name: str) -> None:
    torch.manual_seed(0)
    torch.compiler.reset()
    model = perturb(MODELS[name]()).eval()
    counter = CompileCounter()
    step = torch.compile(model.step, fullgraph=True, backend=counter)  # a break is an error
    state, compiled_state = None, None
    for number, frame in enumerate(frames(model)):
        expected, state = model.step(frame, state)
        found, compiled_state = step(frame, compiled_state)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
        if number == STEPS // 2:  # what was saved goes on
            compiled_state = pickle.loads(pickle.dumps(copy.deepcopy(compiled_state)))
    assert counter.frame_count == (3 if name.startswith("unbounded") else 2)
    torch.testing.assert_close(tensors(compiled_state), tensors(state), atol=1e-5, rtol=0)


def test_a_compiled_stream_ends_with_its_table() -> None:
    torch.compiler.reset()
    model = causal(clip_len=3, block=[dict(pattern="causal_time")], positions="time").eval()
    step, state = torch.compile(model.step, fullgraph=True, backend="eager"), None
    with torch.no_grad():
        for frame in frames(model)[:3]:
            _, state = step(frame, state)
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            step(frame, state)


@pytest.mark.parametrize("name", ["bounded", pytest.param("horst", marks=pytest.mark.slow)])
@torch.no_grad()
def test_few_graphs_serve_all_numbers_of_joined_streams(name: str) -> None:
    torch.manual_seed(0)
    torch.compiler.reset()
    model = perturb(MODELS[name]()).eval()
    counter, draw = CompileCounter(), random.Random(0)
    step = torch.compile(model.step, fullgraph=True, backend=counter)
    inputs, states, numbers = frames(model), [None] * 6, set()
    for turn in range(30):
        chosen = draw.sample(range(6), draw.randint(1, 6))
        for shapes in {shapes_of(states[row]) for row in chosen}:
            rows = [row for row in chosen if shapes_of(states[row]) == shapes]
            pixels = torch.stack([inputs[(turn + row) % STEPS][0] for row in rows])
            joined = join_states([states[row] for row in rows])
            found, state = step(pixels, joined)
            torch.testing.assert_close(found, model.step(pixels, joined)[0], atol=1e-5, rtol=0)
            numbers.add(len(rows))
            for row, alone in zip(rows, split_states(state, len(rows)), strict=True):
                states[row] = alone
    assert numbers == {1, 2, 3, 4, 5, 6} and counter.frame_count <= 6

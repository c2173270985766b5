"""States of several streams as rows of a batch, against each stream alone."""

from typing import Any

import pytest
import torch
from hypothesis import given, reject
from torch import Tensor, nn

from mmvidformer.layers.stream import StreamState, join_states, shapes_of, split_states
from mmvidformer.models import VideoTransformer
from mmvidformer.models.horst.necks import Horst
from tests.models.test_streaming import COMPOSITIONS, FRAMES, TIME, build, stream
from tests.models.tiny import perturb, same_examples

# What streams step at each time: some start late, stall, or end.
TURNS = [[0], [0, 2], [2, 0, 1], [1, 0], [0, 1], [1, 0, 2], [2, 1], [1, 2], [2, 1, 0]]


@torch.no_grad()
def step_together(model: nn.Module, streams: list[list[Tensor]]) -> tuple[list[list[Tensor]], int]:
    """What a model answers after each frame of its streams by ``TURNS``; and the most rows."""
    left = [iter(frames) for frames in streams]
    states: list[Any] = [None] * len(streams)
    outs: list[list[Tensor]] = [[] for _ in streams]
    most = 0
    for turn in TURNS:
        for shapes in {shapes_of(states[number]) for number in turn}:
            rows = [number for number in turn if shapes_of(states[number]) == shapes]
            most = max(most, len(rows))
            frames = torch.cat([next(left[number]) for number in rows])
            out, state = model.step(frames, join_states([states[number] for number in rows]))
            alone = split_states(state, len(rows))
            out = out if isinstance(out, Tensor) else out.y
            for number, answer, state in zip(rows, out, alone, strict=True):
                outs[number].append(answer)
                states[number] = state
    return outs, most


def check(model: VideoTransformer, dtype: torch.dtype, tolerance: float) -> int:
    unit = model.embed.tubelet[0]
    clips = torch.randn(3, 1, 3, FRAMES * unit, 16, 16, dtype=dtype)
    outs, most = step_together(model, [[*clip.split(unit, dim=2)] for clip in clips])
    for clip, answers in zip(clips, outs, strict=True):
        alone, state = [], None
        for frames in clip.split(unit, dim=2)[: len(answers)]:
            with torch.no_grad():
                out, state = model.step(frames, state)
            alone.append(out[0])
        torch.testing.assert_close(torch.stack(answers), torch.stack(alone), atol=tolerance, rtol=0)
    return most


@pytest.mark.parametrize("count", [15, pytest.param(200, marks=pytest.mark.slow)])
def test_random_compositions(count: int) -> None:
    @same_examples(count)
    @given(options=COMPOSITIONS)
    def run(options: dict) -> None:
        try:
            model = build(clip_len=2 * FRAMES, **options)
        except ValueError:
            reject()
        check(model.double(), torch.float64, 1e-10)

    run()


WINDOW = [dict(pattern=dict(type="causal_time", past=4)), dict(pattern="space")]
ROPE = dict(type="axial", axes="th")
SINK = [dict(pattern=dict(type="causal_joint", past=3), cls="sink")]
MODELS = {
    "rotary": dict(block=WINDOW, rope=ROPE, positions="none"),
    "sink": dict(block=SINK, cls="sink", pool="cls", rope=ROPE, positions="none"),
    "table": dict(block=WINDOW, positions=dict(type="time", hold_last=True), clip_len=3),
    "sines": dict(block=WINDOW, positions=dict(type="space_time", fixed=True)),
    "flat": dict(block=WINDOW, positions=dict(type="joint", fixed="flat")),
    "sums": dict(block=[dict(TIME, kernel="linear"), dict(pattern="space")]),
    "recurrence": dict(block=[dict(TIME, kernel="recurrence"), dict(pattern="space")]),
}


@pytest.mark.parametrize("name", MODELS)
def test_streams_of_any_age_step_together(name: str) -> None:
    """Those whose states have one shape are one batch, at the first turns likewise."""
    settings = dict(clip_len=2 * FRAMES) | MODELS[name]
    assert check(build(**settings), torch.float32, 1e-5) == 3


def test_a_past_without_end_joins_streams_of_one_age() -> None:
    model = build(block=[TIME, dict(pattern="space")])
    assert check(model, torch.float32, 1e-5) > 1


@pytest.mark.parametrize("attention", ["space_time", "joint"])
def test_horst(attention: str) -> None:
    torch.manual_seed(0)
    model = perturb(Horst(3, [4, 6], order=3, attention=attention, num_heads=2).eval())
    streams = torch.randn(3, len(TURNS), 1, 3, 5, 4)
    outs, most = step_together(model, [[*frames] for frames in streams])
    assert most == 3
    for frames, answers in zip(streams, outs, strict=True):
        with torch.no_grad():
            (whole, _, _), _ = model(frames.transpose(0, 1)[:, : len(answers)])
        torch.testing.assert_close(torch.stack(answers), whole[0], atol=1e-5, rtol=0)


def test_a_state_keeps_no_other_one() -> None:
    """One that waits keeps its own memory, not that of a batch; it stays as it is."""
    model = build(block=WINDOW)
    clip = torch.randn(4, 3, 5, 16, 16)
    _, states = stream(model, clip, [1] * 5)
    before = [x.clone() for past in states[-1].past for x in past]
    rows = list(split_states(states[-1], 4))
    for row in rows:
        assert isinstance(row, StreamState) and row.steps == 5 and row.size == (1, 3, 16, 16)
        assert all(x.untyped_storage().nbytes() == x.nbytes for past in row.past for x in past)
    joined = join_states(rows)
    assert joined.steps.tolist() == [[5]] * 4 and joined.size == (4, 3, 16, 16)
    for x, y in zip(before, (x for past in joined.past for x in past), strict=True):
        torch.testing.assert_close(x, y, atol=0, rtol=0)

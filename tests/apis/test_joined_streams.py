"""Frames of several streams that go through a recurrent model together."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from mmengine.config import Config
from torch import Tensor, nn

from mmvidformer import get_config
from mmvidformer.apis import Recognizer
from mmvidformer.apis.stream import Step
from mmvidformer.apis.together import Threads
from mmvidformer.layers import POSITIONS, Positions

LENGTHS = (20, 7, 13, 1)  # frames of each stream; the last ones end early


def draw(seed: int, frames: int) -> list[np.ndarray]:
    return [*np.random.default_rng(seed).integers(0, 256, (frames, 48, 64, 3), np.uint8)]


@pytest.fixture(params=["horst_early_motion", "causal_transformer_early_motion"])
def recognizer(request, small, build, tmp_path) -> Recognizer:
    cfg: Config
    if request.param.startswith("horst"):
        cfg = small(request.param)
    else:
        cfg = get_config(request.param)
    path = tmp_path / "weights.pth"
    torch.save({"state_dict": build(cfg).state_dict()}, path)
    return Recognizer(cfg, str(path), device="cpu")


def test_answers_are_those_of_each_stream_alone(recognizer, monkeypatch) -> None:
    streams = [draw(seed, 3 * frames) for seed, frames in enumerate(LENGTHS)]
    alone = [[*recognizer.stream(frames, 30, restart=0.9)] for frames in streams]
    batches = []
    stream = recognizer.fast_model.stream

    def count(frames: Any, states: Any = None) -> Any:
        batches.append(len(frames))
        return stream(frames, states)

    monkeypatch.setattr(recognizer.fast_model, "stream", count)
    found: list[list] = [[] for _ in streams]

    def answer(number: int, send: Any) -> None:
        for prediction in recognizer.stream(streams[number], 30, restart=0.9):
            send(number, prediction)

    with (
        recognizer.gathered(size=len(streams), delay=0.05),
        Threads([partial(answer, number) for number in range(len(streams))]) as sent,
    ):
        for number, prediction in sent:
            found[number].append(prediction)
    assert sum(batches) == sum(map(len, alone)) and max(batches) > 1
    for one, other in zip(found, alone, strict=True):
        assert [x.seconds for x in one] == [x.seconds for x in other]
        for x, y in zip(one, other, strict=True):
            np.testing.assert_allclose(x.scores["class"], y.scores["class"], atol=1e-5)


def test_no_stream_waits_for_those_that_are_not_open(recognizer) -> None:
    frame = Step(recognizer.frame_runner.pipeline(draw(0, 1)[0]), is_first=True)
    with recognizer.gathered(size=8, delay=300), ThreadPoolExecutor(2) as pool:
        rows = [recognizer.open_stream() for _ in range(2)]
        for scores in [pool.submit(row.run, frame) for row in rows]:
            assert scores.result()
        del rows[0]
        assert rows[0].run(frame)  # at once, not after 300 seconds


def test_frames_of_two_sizes_are_two_batches(recognizer, monkeypatch) -> None:
    """Also before there is a state, whose shape tells them apart; each answers as alone."""
    small = [recognizer.frame_runner.pipeline(pixels) for pixels in draw(0, 8)]
    large = [torch.cat([frame, frame.flip(-1)], dim=-1) for frame in small]
    streams = [small[:4], large[:4], small[4:], large[4:]]
    alone, states, shapes = [], [None] * len(streams), []
    for frames in streams:
        row = recognizer.open_stream()
        alone.append([row.run(Step(x, i == 0))["class"] for i, x in enumerate(frames)])
    stream = recognizer.fast_model.stream

    def note(frames: Any, states: Any = None) -> Any:
        shapes.append((len(frames), *frames.shape[-2:]))
        return stream(frames, states)

    monkeypatch.setattr(recognizer.fast_model, "stream", note)
    for turn in range(4):
        inputs = [frames[turn] for frames in streams]
        results = recognizer._run_steps([*zip(inputs, states, strict=True)])
        scores, states = zip(*results, strict=True)
        for found, wanted in zip(scores, alone, strict=True):
            torch.testing.assert_close(found["class"], wanted[turn], atol=1e-5, rtol=0)
    assert shapes == [(2, 32, 32), (2, 32, 64)] * 4


def test_a_frame_that_fails_ends_its_stream_alone(recognizer) -> None:
    """The others of its batch go on from the state that they had."""
    pipeline = recognizer.frame_runner.pipeline
    frames = [pipeline(pixels) for pixels in draw(0, 3)]
    alone, row = recognizer.open_stream(), recognizer.open_stream()
    expected = [alone.run(Step(x, number == 0))["class"] for number, x in enumerate(frames)]
    with recognizer.gathered(size=2, delay=5):
        for inputs, wanted in zip(frames, expected, strict=True):
            request = inputs, row._state
            good = recognizer._steps.submit(request)
            bad = recognizer._steps.submit((inputs[:, :2], None))
            scores, row._state = good.result()
            assert isinstance(bad.exception(), Exception)
            torch.testing.assert_close(scores["class"], wanted, atol=1e-5, rtol=0)


class Places(Positions):
    """Sines of the number of a frame, as a user writes them: of one stream, not of joined ones."""

    def __init__(self, dim: int, size: tuple, cls: bool) -> None:
        super().__init__()
        self.rates = nn.Parameter(torch.rand(dim))

    def forward(self, size: tuple, like: Tensor, cls: Any = None, state: Any = None) -> tuple:
        """Return them."""
        places = torch.arange(size[0], device=like.device) + (0 if state is None else state.steps)
        return [torch.sin(torch.outer(places.to(like), self.rates))[:, None, None]], cls


def test_positions_of_one_stream_alone_run_alone(build, monkeypatch) -> None:
    """Streams of one age step together; those of two ages fail together, and are right alone."""
    monkeypatch.setitem(POSITIONS, "places", Places)
    cfg = get_config("causal_transformer_early_motion")
    cfg.model.backbone.positions = "places"
    cfg.model.backbone.block[0].pattern = dict(type="causal_time", past=4)
    recognizer = Recognizer(cfg, None, device="cpu")
    frames = [recognizer.frame_runner.pipeline(pixels) for pixels in draw(0, 12)]
    alone, rows = recognizer.open_stream(), [recognizer.open_stream() for _ in range(2)]
    wanted = [alone.run(Step(x, number == 0))["class"] for number, x in enumerate(frames)]
    for number in range(5):
        rows[0].run(Step(frames[number], number == 0))
    stream, ages = recognizer.fast_model.stream, []

    def note(frames: Any, states: Any = None) -> Any:
        ages.append(len(frames))
        return stream(frames, states)

    monkeypatch.setattr(recognizer.fast_model, "stream", note)
    for number in range(4):
        rows[1].run(Step(frames[number], number == 0))
    with recognizer.gathered(size=2, delay=300), ThreadPoolExecutor(2) as pool:
        steps = Step(frames[5], False), Step(frames[4], False)
        found = [*pool.map(lambda row, step: row.run(step)["class"], rows, steps)]
    torch.testing.assert_close(found, [wanted[5], wanted[4]], atol=1e-5, rtol=0)
    assert ages == [1, 1, 1, 1, 2, 1, 1]

"""Frames of several streams that go through a recurrent model together."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmvidformer import get_config
from mmvidformer.apis import Recognizer
from mmvidformer.apis.stream import Step, StreamRow
from mmvidformer.apis.together import Threads

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


def test_a_frame_that_fails_ends_its_stream_alone(recognizer) -> None:
    """The others of its batch go on from the state that they had."""
    pipeline = recognizer.frame_runner.pipeline
    frames = [pipeline(pixels) for pixels in draw(0, 3)]
    expected, row = recognizer.open_stream(), recognizer.open_stream()
    with recognizer.gathered(size=2, delay=5):
        for number, inputs in enumerate(frames):
            request = inputs, row._state
            good = recognizer._steps.submit(request)
            bad = recognizer._steps.submit((inputs[:, :2], None))
            scores, row._state = good.result()
            assert isinstance(bad.exception(), Exception)
            wanted = StreamRow.run(expected, Step(inputs, number == 0))
            torch.testing.assert_close(scores["class"], wanted["class"], atol=1e-5, rtol=0)

"""Samples that come together go through a model together, and each gets its own answer."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import arbitrary_address, default_family
from typing import Any

import pytest
import torch
from torch import Tensor

from mmvidformer.apis import Recognizer
from mmvidformer.apis.loaded_model import Request
from mmvidformer.engine.offer_options import Limits
from mmvidformer.errors import LostProcess, UserError
from mmvidformer.layers.samples import DataSample
from mmvidformer.web.shared_models import Link, offer_model


class Doubling(Recognizer):
    """A model that doubles numbers, slowly or at once, and knows its batches."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.batches: list[list[float]] = []
        self._batches = self._stages = self._open_link = None

    def _run(self, requests: Sequence[Request]) -> list[DataSample]:
        numbers = torch.stack([sample["inputs"] for sample, _ in requests])
        self.batches.append(numbers.tolist())
        time.sleep(self.seconds)
        if (numbers == -1).any():
            raise UserError("a number is negative")
        if (numbers == -2).any():
            raise RuntimeError("out of memory")
        return [DataSample(pred_score=2 * number) for number in numbers]


@pytest.fixture
def offer(monkeypatch) -> Callable[..., str]:
    """Let a model answer at an address."""

    def offer(model: Recognizer, size: int, delay: float) -> str:
        address = arbitrary_address(default_family)
        monkeypatch.setattr("mmvidformer.web.shared_models.can_share", lambda model: True)
        assert [*offer_model(model, Limits(), address, size, delay)] == [address]
        return address

    return offer


def ask_at_once(addresses: Sequence[str], numbers: Sequence[float]) -> list[Any]:
    """Ask for each number in a thread of its own; return answers and errors."""
    answers: list[Any] = [None] * len(numbers)

    def ask(place: int) -> None:
        try:
            answers[place] = Link(addresses[place]).run(dict(inputs=torch.tensor(numbers[place])))
        except UserError as error:
            answers[place] = error

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(numbers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    return answers


def scores_of(answers: Sequence[DataSample]) -> list[float]:
    return [answer.pred_score.item() for answer in answers]


@pytest.mark.parametrize("seconds", [0, 0.05], ids=["fast", "slow"])
def test_each_gets_its_own_answer(offer, seconds: float) -> None:
    first, second = Doubling(seconds), Doubling(seconds)
    addresses = [offer(model, size=4, delay=30) for model in (first, second)]
    numbers = [float(number) for number in range(16)]
    assert scores_of(ask_at_once(addresses * 8, numbers)) == [2 * number for number in numbers]
    assert sorted(sum(first.batches, [])) == numbers[::2]
    assert sorted(sum(second.batches, [])) == numbers[1::2]
    assert [len(batch) for batch in first.batches] == [4, 4]


def test_one_alone_does_not_wait_for_ever(offer) -> None:
    model = Doubling(0)
    address = offer(model, size=4, delay=0.01)
    assert scores_of(ask_at_once([address], [3.0])) == [6.0]
    assert model.batches == [[3.0]]


def test_what_fails_fails_alone(offer, capfd) -> None:
    model = Doubling(0)
    address = offer(model, size=4, delay=30)
    one, wrong, bug, two = ask_at_once([address] * 4, [1.0, -1.0, -2.0, 2.0])
    assert scores_of([one, two]) == [2.0, 4.0]
    assert type(wrong) is UserError and str(wrong) == "a number is negative"
    assert type(bug) is LostProcess and str(bug) == "the model failed: RuntimeError"
    assert "RuntimeError: out of memory" in capfd.readouterr().err
    assert len(model.batches[0]) == 4 and sorted(map(len, model.batches[1:])) == [1] * 4


def test_models_that_are_not_there() -> None:
    (gone,) = ask_at_once([arbitrary_address(default_family)], [1.0])
    assert type(gone) is LostProcess and "has ended, and starts again" in str(gone)


def count_frames(recognizer: Recognizer) -> list[int]:
    """Return a list to which the numbers of the blocks of frames that it encodes are added."""
    stages, counts = recognizer._stages, list[int]()

    def encode(blocks: Tensor) -> Tensor:
        counts.append(len(blocks))
        return stages.encode(blocks)

    recognizer._stages = stages._replace(encode=encode)
    return counts


def test_frames_that_windows_share_are_encoded_once(offer, tiny, tiny_videos) -> None:
    """And the answers are those of a model that is here, which encodes as many."""
    here, there, reader = (Recognizer(*map(str, tiny), device="cpu") for _ in range(3))
    expected_counts, counts = count_frames(here), count_frames(there)
    reader.run_elsewhere(partial(Link, offer(there, size=1, delay=0.01)))
    options = dict(window=1, stride=1 / 3, cuts="none")
    answers: Iterator[list] = (
        [prediction.row(3) for prediction in model.timeline(video, **options)]
        for video in (tiny_videos.root / "val_0.mp4", tiny_videos.root / "val_1.mp4")
        for model in (here, reader)
    )
    assert next(answers) == next(answers) != []
    assert next(answers) == next(answers) != []
    assert counts == expected_counts and min(counts) < max(counts)

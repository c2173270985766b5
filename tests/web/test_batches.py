"""Samples that come together go through a model together, and each gets its own answer."""

import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import arbitrary_address, default_family
from typing import Any

import pytest
import torch
from torch import Tensor

from mmvidformer.errors import LostProcess, UserError
from mmvidformer.layers.samples import DataSample
from mmvidformer.web.batches import Batches
from mmvidformer.web.shared_models import run_remotely


class Doubling:
    """A model that doubles numbers, slowly or at once, and knows its batches."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.batches: list[list[float]] = []

    def run_samples(self, samples: Sequence[dict]) -> list[DataSample]:
        """Answer, or fail for a negative number."""
        numbers = torch.stack([sample["inputs"] for sample in samples])
        self.batches.append(numbers.tolist())
        time.sleep(self.seconds)
        if (numbers == -1).any():
            raise UserError("a number is negative")
        if (numbers == -2).any():
            raise RuntimeError("out of memory")
        return [DataSample(pred_score=2 * number) for number in numbers]


@pytest.fixture
def address() -> Iterator[str]:
    yield arbitrary_address(default_family)


def ask_at_once(address: str, names: Sequence[str], numbers: Sequence[float]) -> list[Any]:
    """Ask for each number in a thread of its own; return answers and errors."""
    answers: list[Any] = [None] * len(numbers)

    def ask(place: int) -> None:
        sample = dict(inputs=torch.tensor(numbers[place]))
        try:
            (answers[place],) = run_remotely(address, names[place], [sample])
        except UserError as error:
            answers[place] = error

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(numbers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    return answers


def scores_of(answers: Sequence[DataSample]) -> list[Tensor]:
    return [answer.pred_score.item() for answer in answers]


@pytest.mark.parametrize("seconds", [0, 0.05], ids=["fast", "slow"])
def test_each_gets_its_own_answer(address: str, seconds: float) -> None:
    batches = Batches(address, size=4, delay=30)
    first = batches.models["a"] = Doubling(seconds)
    second = batches.models["b"] = Doubling(seconds)
    numbers = [float(number) for number in range(16)]
    answers = ask_at_once(address, ["a", "b"] * 8, numbers)
    assert scores_of(answers) == [2 * number for number in numbers]
    together = first.batches + second.batches
    assert sorted(sum(together, [])) == numbers
    assert max(map(len, together)) > 1 and len(first.batches) <= 4


def test_one_alone_does_not_wait_for_ever(address: str) -> None:
    batches = Batches(address, size=4, delay=0.01)
    batches.models["a"] = model = Doubling(0)
    assert scores_of(ask_at_once(address, ["a"], [3.0])) == [6.0]
    assert model.batches == [[3.0]]


def test_what_fails_fails_alone(address: str, capfd) -> None:
    batches = Batches(address, size=4, delay=30)
    batches.models["a"] = model = Doubling(0)
    one, wrong, bug, two = ask_at_once(address, "aaaa", [1.0, -1.0, -2.0, 2.0])
    assert scores_of([one, two]) == [2.0, 4.0]
    assert type(wrong) is UserError and str(wrong) == "a number is negative"
    assert type(bug) is LostProcess and str(bug) == "the model failed: RuntimeError"
    assert "RuntimeError: out of memory" in capfd.readouterr().err
    assert len(model.batches[0]) == 4 and sorted(map(len, model.batches[1:])) == [1] * 4


def test_models_that_are_not_there(address: str) -> None:
    (gone,) = ask_at_once(address, "a", [1.0])
    assert type(gone) is LostProcess and "has ended, and starts again" in str(gone)
    Batches(address, size=1, delay=1)
    (missing,) = ask_at_once(address, "a", [1.0])
    assert type(missing) is LostProcess and str(missing) == "the model is not loaded yet"

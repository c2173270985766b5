"""What tasks make of the outputs of heads, and how it is written."""

from types import SimpleNamespace

import pytest
import torch
from mmengine.structures import InstanceData

from mmvidformer.apis.detector import Person
from mmvidformer.sinks.annotate import Bars, prediction_bars
from mmvidformer.tasks.table import ANTICIPATION, TASKS, task_of_head

NAMES = {"class": ["a", "b"]}


@pytest.mark.parametrize(
    ("scores", "is_logits"),
    [
        (torch.tensor([0.25, 0.75]).log(), True),
        (torch.tensor([0.25, 0.75]), False),
        (torch.tensor([[0.25, 0.75], [2.5, 7.5]]).log(), True),  # of two views
    ],
)
def test_scores_become_probabilities(scores: torch.Tensor, is_logits: bool) -> None:
    found = TASKS["classes"].predict({"class": scores}, NAMES, is_logits, source="x.mp4")
    assert found.top(1) == [(1, "b", pytest.approx(0.75))]
    assert found.scores["class"].tolist() == scores.tolist()
    assert found.source == "x.mp4" and found.text() == "b 75%, a 25%"


def test_several_outputs() -> None:
    odds = torch.tensor([1.0, 3.0]).log()
    names = {"noun": "ab", "verb": "cd"}
    two = TASKS["classes"].predict({"noun": odds, "verb": odds}, names)
    assert two.text(1) == "noun: b 75%; verb: d 75%"
    nowhere = {"video": None, "start": None, "end": None}
    row = {"noun": "b", "noun_score": 0.75, "verb": "d", "verb_score": 0.75}
    assert two.row() == {**nowhere, **row}
    best = [{"label": "d", "score": 0.75}, {"label": "c", "score": 0.25}]
    assert two.row(2)["verb_top"] == best


def test_several_labels() -> None:
    logits, task = torch.tensor([0.0, 2.0]), TASKS["labels"]
    found = task.predict({"class": logits}, NAMES)
    assert found.text() == "b 88%, a 50%" and not found.values
    assert found.row()["labels"] == "a;b" and found.row()["score"] == 0.880797
    (bars,) = prediction_bars(found, 1, "now")
    assert bars == Bars("now", [("b", 0.880797)], 0.5)
    found = task.predict({"class": logits.sigmoid()}, NAMES, is_logits=False)
    assert found.text() == "b 88%, a 50%"


def test_values() -> None:
    task, scores = TASKS["number"], torch.tensor([0.0, 2.0])
    found = task.predict({"class": scores}, NAMES, source="x.mp4")
    assert found.text() == "a 0, b 2" and found.values == {"a": 0, "b": 2}
    assert found.row() == {"video": "x.mp4", "start": None, "end": None, "a": 0, "b": 2}
    unknown = task.predict({"class": torch.tensor([torch.nan, 1 / 3])}, NAMES)
    assert (unknown.row()["a"], unknown.row()["b"]) == (None, 0.333333)  # JSON has no NaN
    assert task.summary([found, task.predict({"class": scores + 1}, NAMES)], 5) == "a 0.5, b 2.5"
    with pytest.raises(ValueError, match="values, not classes"):
        found.top()


def test_segments_have_one_class() -> None:
    task = TASKS["segments"]
    output = InstanceData(
        segments=torch.tensor([[0.5, 2.0], [1.0, 4.0]]),
        scores=torch.tensor([0.75, 0.5]),
        labels=torch.tensor([1, 0]),
    )
    first, second = task.answers(output, NAMES, source="x.mp4")
    assert (first.start, first.end, first.top()) == (0.5, 2, [(1, "b", 0.75)])
    row = {"video": "x.mp4", "start": 1, "end": 4, "label": "a", "score": 0.5}
    assert second.row() == row
    assert second.row(5) == {**row, "top": [{"label": "a", "score": 0.5}]}
    assert task.shown_at([first, second], 1.5) == [first, second]
    assert task.shown_at([first, second], 2.0) == [second] and not task.shown_at([first], 2.0)
    assert task.summary([first, second], 5) == {"b": 0.75, "a": 0.5}


def test_boxes_are_shown_around_their_moment() -> None:
    task = TASKS["boxes"]
    scores = torch.tensor([[0, 0.25, 0.75]])
    output = SimpleNamespace(pred_instances=InstanceData(scores=scores))
    persons = [Person((0.25, 0, 0.5, 1))]
    (box,) = task.answers(output, NAMES, persons=persons, seconds=(3, 3))
    assert box.box == (0.25, 0, 0.5, 1) and box.top(1) == [(1, "b", 0.75)]
    corners = {"x1": 0.25, "y1": 0, "x2": 0.5, "y2": 1}
    where = {"video": None, "start": 3, "end": 3}
    assert box.row() == {**where, **corners, "label": "b", "score": 0.75, "labels": "b"}
    shown = [bool(task.shown_at([box], seconds)) for seconds in (2.4, 2.5, 3.5, 3.6)]
    assert shown == [False, True, True, False]


def test_the_task_of_a_head() -> None:
    """By its type or that of its class; MMAction2's heads say whether they have several classes."""

    class FramesHead:
        pass

    class Own(FramesHead):
        pass

    assert task_of_head(Own()) is TASKS["frames"]
    assert task_of_head(dict(type="mmvidformer.BoxesHead")) is TASKS["boxes"]
    assert task_of_head(dict(type="TimeSformerHead", multi_class=True)) is TASKS["labels"]
    assert task_of_head(SimpleNamespace(multi_class=True)) is TASKS["labels"]
    assert task_of_head(dict(type="TimeSformerHead")) is TASKS["classes"]
    assert task_of_head(dict(type="AnticipationHead")) is ANTICIPATION
    assert task_of_head(None) is TASKS["classes"]

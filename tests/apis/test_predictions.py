from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmvidformer.apis import read_class_names
from mmvidformer.apis.predictions import complete_names, to_prediction


def test_names_of_text_and_csv_files(tmp_path: Path) -> None:
    verbs, nouns, actions = (tmp_path / n for n in ("verbs.txt", "nouns.csv", "actions.csv"))
    verbs.write_text("take\nput\n")
    nouns.write_text("id,key,instances\n0,tap,[]\n2,pan,[]\n1,plate,[]\n")
    actions.write_text("id, verb, noun, action\n0, 0, 1, take plate\n1, 1, 2, put pan\n")
    tasks = {"action": 2, "verb": 2, "noun": 3}
    found = read_class_names([f"verb={verbs}", f"noun={nouns}", f"action={actions}"], tasks)
    assert found == {
        "action": ["take plate", "put pan"],
        "verb": ["take", "put"],
        "noun": ["tap", "plate", "pan"],
    }
    assert read_class_names([f"noun={nouns}"], tasks) == {"noun": ["tap", "plate", "pan"]}
    assert read_class_names([str(verbs)], {"class": 2}) == {"class": ["take", "put"]}


def test_names_that_do_not_fit_are_reported(tmp_path: Path) -> None:
    verbs, nouns = tmp_path / "verbs.txt", tmp_path / "nouns.csv"
    verbs.write_text("take\nput\n")
    nouns.write_text("id,key\n0,tap\n2,pan\n1,plate\n")
    with pytest.raises(ValueError, match="nouns.csv must name 4 classes, got 3 names"):
        read_class_names([f"noun={nouns}"], {"noun": 4})
    with pytest.raises(ValueError, match="verbs.txt must name 3 classes, got 2 names"):
        read_class_names([str(verbs)], {"class": 3})
    with pytest.raises(ValueError, match="given as verb=FILE noun=FILE, got 'x.txt'"):
        read_class_names(["x.txt"], {"verb": 2, "noun": 3})
    nouns.write_text("id,key\n0,tap\n2,pan\n3,plate\n")
    with pytest.raises(ValueError, match="nouns.csv: column 'id' must number the classes from 0"):
        read_class_names([str(nouns)], {"noun": 3})
    nouns.write_text("noun,name\n0,tap\n")
    with pytest.raises(ValueError, match="must have a column of .* got .'noun', 'name'"):
        read_class_names([f"noun={nouns}"], {"noun": 1})


def test_names_default_to_those_of_the_config_or_numbers() -> None:
    cfg = Config({"model": {"cls_head": {"num_classes": 2}}})
    assert complete_names(cfg, None) == {"class": ["0", "1"]}
    assert complete_names(cfg, {"class": ["a", "b"]}) == {"class": ["a", "b"]}
    cfg.class_names = ["left", "up"]
    assert complete_names(cfg, {}) == {"class": ["left", "up"]}
    cfg.class_names = ["left"]
    with pytest.raises(ValueError, match="'class' has 2 classes, but 1 names"):
        complete_names(cfg, None)
    two = Config({"model": {"cls_head": {"tasks": {"noun": 1, "verb": 2}}}})
    assert complete_names(two, {"verb": ["a", "b"]}) == {"noun": ["0"], "verb": ["a", "b"]}
    with pytest.raises(ValueError, match="must have a cls_head with num_classes or tasks"):
        complete_names(Config({"model": {"backbone": {}}}), None)


def test_scores_become_probabilities_as_the_head_averages_views() -> None:
    names = {"class": ["a", "b"]}
    odds = torch.tensor([1.0, 3.0])
    for scores, average in (
        (odds.log(), "score"),
        (odds / 4, "prob"),
        (torch.stack([odds.log(), odds.log() + 5]), None),
    ):
        found = to_prediction({"class": scores}, names, average, source="x.mp4")
        assert found.top(1) == [(1, "b", pytest.approx(0.75))]
        assert found.scores["class"].tolist() == scores.tolist()
        assert found.source == "x.mp4"
    assert found.text() == "b 75%, a 25%"
    two = to_prediction({"noun": odds.log(), "verb": odds.log()}, {"noun": "ab", "verb": "cd"})
    assert two.text(1) == "noun: b 75%; verb: d 75%"
    assert two.record(1)["predictions"]["verb"] == [{"class": 1, "name": "d", "score": 0.75}]

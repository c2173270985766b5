"""Fine-tuning parses a list once, whatever it asks of it; the dataset parses it once more."""

import os
from collections import Counter
from pathlib import Path

import pytest

from mmvidformer.config import load_config
from mmvidformer.data import lists, tables
from mmvidformer.finetune import rows
from mmvidformer.finetune.outcome import compare_to_chance
from mmvidformer.finetune.recipe import apply_recipe
from mmvidformer.finetune.rows import videos_of, warn_of_shared_videos
from mmvidformer.finetune.settings import Recipe
from mmvidformer.tasks import classification
from mmvidformer.tasks.lists import read_task_lists
from mmvidformer.tasks.table import find_task

SPANS = "video,start,end,label\na.mp4,0,1,x\na.mp4,1,2,y\n"


@pytest.mark.parametrize(
    ("task", "text", "balance"),
    [
        ("frames", SPANS, "weights"),
        ("segments", SPANS, None),
        ("moments", "video,time,label\na.mp4,1,x\nb.mp4,1,y\n", None),
        ("number", "video,speed\na.mp4,1\nb.mp4,2\n", None),
    ],
)
def test_a_list_is_parsed_once(
    task: str, text: str, balance: str | None, tmp_path: Path, monkeypatch
) -> None:
    for split in ("train", "val"):
        (tmp_path / f"{split}.csv").write_text(text)
    (tmp_path / "classes.txt").write_text("x\ny\nbackground\n")
    parses: Counter[str] = Counter()
    split_lines = tables._split_lines

    def count(path: Path) -> object:
        parses[Path(path).name] += 1
        return split_lines(path)

    monkeypatch.setattr(tables, "_split_lines", count)
    found = read_task_lists(tmp_path, task)
    apply_recipe(load_config("vivit_fe_motion"), found, Recipe(task=task, balance=balance))
    compare_to_chance(find_task(task), found, {str(find_task(task).best_metric): 0.4})
    assert parses == {"train.csv": 1, "val.csv": 1}


def test_a_list_of_classes_is_parsed_once_more_for_all_probes(tmp_path: Path, monkeypatch) -> None:
    """Features, classifiers and baselines ask for its videos; a changed list is read again."""
    for split in ("train", "val"):
        (tmp_path / f"{split}.txt").write_text("a.mp4 0\nb.mp4 1\n")
    (tmp_path / "classes.txt").write_text("x\ny\n")
    parses: Counter[str] = Counter()
    read_list = lists.read_list

    def count(file: Path, *args: object, **kwargs: object) -> object:
        parses[Path(file).name] += 1
        return read_list(file, *args, **kwargs)

    monkeypatch.setattr(classification, "read_list", count)
    monkeypatch.setattr(rows, "read_list", count)
    found = read_task_lists(tmp_path, "classes")
    for _ in range(3):
        warn_of_shared_videos(found)
        assert [row.label for row in videos_of(found, "train")] == [0, 1]
    assert parses == {"train.txt": 2, "val.txt": 2}
    (tmp_path / "train.txt").write_text("a.mp4 1\nb.mp4 1\n")
    os.utime(tmp_path / "train.txt", ns=(1, 1))
    assert [row.label for row in videos_of(found, "train")] == [1, 1]

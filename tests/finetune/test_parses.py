"""Fine-tuning parses a list once, whatever it asks of it; the dataset parses it once more."""

from collections import Counter
from pathlib import Path

import pytest

from mmvidformer.config import load_config
from mmvidformer.data import tables
from mmvidformer.finetune.outcome import compare_to_chance
from mmvidformer.finetune.recipe import apply_recipe
from mmvidformer.finetune.settings import Recipe
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
    lists = read_task_lists(tmp_path, task)
    apply_recipe(load_config("vivit_fe_motion"), lists, Recipe(task=task, balance=balance))
    compare_to_chance(find_task(task), lists, {str(find_task(task).best_metric): 0.4})
    assert parses == {"train.csv": 1, "val.csv": 1}

"""What a result is worth beside an answer that looks at no video."""

import csv

import pytest

from mmvidformer.finetune.outcome import PROBE_ADVICE, compare_share, compare_to_chance
from mmvidformer.tasks.lists import read_task_lists
from mmvidformer.tasks.table import find_task
from tests.finetune.tallies import without_groups


@pytest.mark.parametrize(
    ("right", "said"),
    [
        (9, "validation: 90.0% (59.6-98.2, n = 10); without looking at the videos: 50.0%"),
        (6, "10 videos are too few to tell whether it is above chance"),
        (5, "50.0%. Nothing was learned: try --weights"),
        (0, "50.0%. Nothing was learned: try --weights"),
    ],
)
def test_classes(tmp_path, right, said) -> None:
    """Most training videos have the class b, which half of the validation videos have."""
    (tmp_path / "train.txt").write_text("".join(f"{i}.mp4 {x}\n" for i, x in enumerate("11102")))
    (tmp_path / "val.txt").write_text("".join(f"{i}.mp4 {i % 2}\n" for i in range(10)))
    (tmp_path / "classes.txt").write_text("a\nb\nc\n")
    lists = read_task_lists(tmp_path, "classes")
    assert said in compare_to_chance(
        find_task("classes"), lists, {"acc/top1": right / 10}, tally=without_groups(right, 10)
    )


def test_a_probe_at_chance_is_not_advised_to_be_a_probe() -> None:
    text = compare_share(without_groups(5, 10), 0.5, advice=PROBE_ADVICE)
    assert "Nothing was learned: try other --weights" in text and "linear" not in text


def test_a_class_without_videos_in_validation_is_no_lower_than_a_draw(tmp_path) -> None:
    (tmp_path / "train.txt").write_text("a.mp4 1\n")
    (tmp_path / "val.txt").write_text("b.mp4 0\nc.mp4 0\n")
    (tmp_path / "classes.txt").write_text("a\nb\n")
    lists = read_task_lists(tmp_path, "classes")
    assert find_task("classes").chance(lists, "val") == 0.5


def test_frames(tmp_path) -> None:
    """Of 10 s of validation, 3 have the class that training has most of, and 7 another one."""
    rows = {
        "train": [("a.mp4", 0, 8, "rest"), ("a.mp4", 8, 9, "feed")],
        "val": [("b.mp4", 0, 3, "rest"), ("b.mp4", 3, 9, "feed")],
    }
    for split, spans in rows.items():
        with (tmp_path / f"{split}.csv").open("w", newline="") as out:
            csv.writer(out).writerows([("video", "start", "end", "label"), *spans])
    (tmp_path / "classes.txt").write_text("feed\nrest\n")
    lists = read_task_lists(tmp_path, "frames")
    task = find_task("frames")
    assert task.chance(lists, "val") == pytest.approx(0.5)  # a draw: 3 of 9 s are fewer
    assert "Nothing was learned" in compare_to_chance(task, lists, {"frames/accuracy": 0.4})
    assert "Nothing" not in compare_to_chance(task, lists, {"frames/accuracy": 0.6})
    assert compare_to_chance(find_task("segments"), lists, {"segments/mAP": 0.0}) is None


def test_labels_and_numbers(tmp_path) -> None:
    (tmp_path / "train.txt").write_text("")
    (tmp_path / "val.txt").write_text("a.mp4 0 1\nb.mp4 0\nc.mp4\nd.mp4\n")
    (tmp_path / "classes.txt").write_text("x\ny\nz\n")
    lists = read_task_lists(tmp_path, "labels")
    assert find_task("labels").chance(lists, "val") == pytest.approx((2 / 4 + 1 / 4) / 2)
    assert find_task("number").chance(lists, "val") == 0

"""Lists that MMAction2 reads."""

import pytest
from mmaction.datasets import VideoDataset

from mmvidformer.data.lists import read_list
from mmvidformer.tasks.lists import read_task_lists, split_annotations
from tests.data.test_list_folders import make_table, split


@pytest.mark.parametrize("name", ["a.mp4", "a b.mp4"], ids=["plain", "blank"])
def test_mmaction_reads_the_lists(tmp_path, name) -> None:
    table = make_table([(f"run/{name}", "run", "train"), ("walk/c.mp4", "walk", "train")], tmp_path)
    lists = split_annotations(table, "classes", tmp_path, check=False)
    assert lists == read_task_lists(tmp_path, "classes")
    assert lists.classes == ("run", "walk") and lists.counts == {"train": 2, "val": 0, "test": 0}
    dataset = VideoDataset(
        ann_file=str(tmp_path / "train.txt"),
        pipeline=[],
        data_prefix=dict(video=str(tmp_path)),
        delimiter=lists.delimiter,
    )
    infos = [dataset.get_data_info(number) for number in range(2)]
    assert [(info["filename"], info["label"]) for info in infos] == [
        *((str(tmp_path / "run" / name), 0), (str(tmp_path / "walk" / "c.mp4"), 1))
    ]
    split_annotations(table, "classes", tmp_path / "elsewhere", check=False)
    line = read_list(tmp_path / "elsewhere" / "train.txt")[0]
    assert line.path == str(tmp_path / "run" / name)
    with pytest.raises(FileExistsError, match="has train.txt, val.txt, test.txt, classes.txt"):
        split_annotations(table, "classes", tmp_path, check=False)


def test_lists_may_mix_absolute_and_relative_paths(tmp_path) -> None:
    (tmp_path / "classes.txt").write_text("run\nwalk\n")
    (tmp_path / "train.txt").write_text("/elsewhere/a.mp4 0\nb.mp4 1\n")
    root = str(read_task_lists(tmp_path, "classes").root)
    dataset = VideoDataset(str(tmp_path / "train.txt"), [], data_prefix=dict(video=root))
    found = [dataset.get_data_info(i)["filename"] for i in range(2)]
    assert found == ["/elsewhere/a.mp4", str(tmp_path / "b.mp4")]


def test_invalid_lists(tmp_path) -> None:
    with pytest.raises(ValueError, match="lists cannot hold; rename it"):
        split([("a\tb.mp4", "run", "train")], tmp_path)
    with pytest.raises(ValueError, match="no video for training"):
        split([("a.mp4", "run", "val")], tmp_path)
    with pytest.raises(FileNotFoundError, match="mmvidformer data list writes"):
        read_task_lists(tmp_path, "classes")
    (tmp_path / "classes.txt").write_text("run\n")
    (tmp_path / "train.txt").write_text("a.mp4 0\nb.mp4 0 1\n")
    with pytest.raises(ValueError, match="train.txt, line 2: expected 'PATH LABEL' with"):
        read_task_lists(tmp_path, "classes")

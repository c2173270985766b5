"""Folds of annotations of every task, and of folders of classes."""

from collections import Counter
from pathlib import Path

import pytest

from mmvidformer.cli.data.list import main
from mmvidformer.data.importers import open_annotations
from mmvidformer.data.list_folders import find_folds
from mmvidformer.tasks.lists import fold_annotations, read_task_lists, split_annotations

# A row of a video for each task, of a class or a value.
COLUMNS = {
    "classes": ("label", "{label}"),
    "labels": ("label", "{label};all"),
    "number": ("level", "{number}"),
    "frames": ("start,end,label", "0,1,{label}"),
    "segments": ("start,end,label", "0,1,{label}"),
    "boxes": ("time,x1,y1,x2,y2,label,track", "1,0,0,0.5,0.5,{label},7"),
    "moments": ("time,label", "1,{label}"),
}


def write_rows(folder: Path, task: str, count: int, groups: int, **columns: list[str]) -> Path:
    """Write a csv file with videos of two classes, and the persons in them."""
    names, form = COLUMNS[task]
    lines = [f"video,{names},Group{''.join(f',{name}' for name in columns)}"]
    for number in range(count):
        values = form.format(label="ab"[number % 2], number=number)
        group = f"p{number % groups}" if groups else ""
        further = "".join(f",{of_column[number]}" for of_column in columns.values())
        lines.append(f"{number}.mp4,{values},{group}{further}")
        (folder / f"{number}.mp4").touch()
    file = folder / "all.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def read_videos(folder: Path, split: str) -> list[str]:
    """Read the names of the videos of a list."""
    (file,) = folder.glob(f"{split}.*")
    lines = file.read_text().replace("\t", ",").replace(" ", ",").splitlines()
    firsts = [Path(line.partition(",")[0]).stem for line in lines]
    return [*dict.fromkeys(name for name in firsts if name != "video")]


@pytest.mark.parametrize("task", COLUMNS)
def test_folds_of_every_task(task, tmp_path) -> None:
    """Each video is tested once, each group in one fold, and classes are in all folds."""
    file = write_rows(tmp_path, task, 40, groups=10)
    lists = fold_annotations(open_annotations(file), task, tmp_path / "out", 5, 0.2, check=False)
    assert [*lists] == [*find_folds(tmp_path / "out")] == ["1", "2", "3", "4", "5"]
    tested: Counter[str] = Counter()
    for name, folder in find_folds(tmp_path / "out").items():
        assert read_task_lists(folder, task).classes == lists[name].classes
        videos = {split: read_videos(folder, split) for split in ("train", "val", "test")}
        groups = {split: {int(video) % 10 for video in videos[split]} for split in videos}
        assert sorted(sum(videos.values(), [])) == sorted(map(str, range(40)))
        assert sum(map(len, groups.values())) == 10
        assert len(videos["test"]) == 8 and len(videos["val"]) in (4, 8)
        if task != "number":
            assert Counter(int(video) % 2 for video in videos["test"]) == {0: 4, 1: 4}
        tested.update(videos["test"])
        assert (folder / "groups.csv").read_text().splitlines()[1].endswith("0.mp4,p0")
    assert set(tested.values()) == {1}


def test_facts_of_lists_that_are_replaced_are_gone(tmp_path) -> None:
    """Groups of an earlier table say nothing of the videos of another one."""
    for groups, says in ((4, "0.mp4,p0"), (5, "0.mp4,p0"), (0, None)):
        table = open_annotations(write_rows(tmp_path, "classes", 20, groups=groups))
        split_annotations(table, "classes", tmp_path / "out", force=True, check=False)
        file = tmp_path / "out" / "groups.csv"
        assert (says in file.read_text()) if says else not file.exists()
    with pytest.raises(FileExistsError, match="has train.txt"):
        split_annotations(table, "classes", tmp_path / "out", check=False)


@pytest.mark.parametrize("task", COLUMNS)
def test_splits_of_every_task_have_all_classes(task, tmp_path) -> None:
    """Of 12 videos of two classes; without groups."""
    file = write_rows(tmp_path, task, 12, groups=0)
    for seed in range(5):
        lists = split_annotations(
            open_annotations(file), task, tmp_path, 0.34, 0.34, seed, force=True, check=False
        )
        assert lists.counts == {"train": 4, "val": 4, "test": 4}
        for split in lists.counts:
            numbers = [int(video) for video in read_videos(tmp_path, split)]
            if task == "number":  # of each third of the values
                assert min(numbers) < 4 and max(numbers) > 7
            else:
                assert Counter(number % 2 for number in numbers) == {0: 2, 1: 2}


@pytest.mark.parametrize("task", COLUMNS)
def test_a_column_states_the_folds(task, tmp_path) -> None:
    """As the official folds of UCF101, where some videos are in no test; pandas writes 1.0."""
    folds = ["1.0", "2.0", "", "1.0", "2.0", ""]
    file = write_rows(tmp_path, task, 6, groups=0, Fold=folds)
    main([str(file), "--task", task, "--no-check"])
    assert read_videos(tmp_path / "fold_1", "test") == ["0", "3"]
    assert sorted(read_videos(tmp_path / "fold_1", "train")) == ["1", "2", "4", "5"]
    assert read_videos(tmp_path / "fold_2", "test") == ["1", "4"]
    assert not (tmp_path / "train.csv").exists() and not (tmp_path / "train.txt").exists()


@pytest.mark.parametrize(
    ("columns", "options", "error"),
    [
        ({}, ["--folds", "4"], "folds must be 2 to 3, the number of groups, got 4"),
        ({"split": ["train"] * 6}, ["--folds", "2"], "states splits, and folds"),
        ({"fold": list("121212")}, [], "group 'p0' is in fold 2, and in fold 1 in line 2"),
        ({"fold": list("123123")}, ["--folds", "3"], "has a column fold already"),
        ({"fold": list("123123")}, ["--test", "0.2"], "which are the tests; leave out --test"),
        ({"fold": list("11 11 ")}, [], "two folds at least, got 1"),
        ({"fold": ["../x"] * 6}, [], "line 2: fold must be a number, or letters and digits"),
    ],
)
def test_wrong_folds(columns, options, error, tmp_path) -> None:
    file = write_rows(tmp_path, "classes", 6, groups=3, **columns)
    with pytest.raises(ValueError, match=error):
        main([str(file), "--task", "classes", "--no-check", *options])
    assert not list(tmp_path.glob("fold_*"))


def test_each_subject_is_tested_alone(tmp_path) -> None:
    """A column of an export may stand for two: the fold and the group."""
    rows = [f"{i}.mp4,{'ab'[i % 2]},{name}" for i, name in enumerate(["ann", "bob", "ann", "eve"])]
    (tmp_path / "all.csv").write_text("\n".join(["video,Behavior,Subject", *rows]))
    columns = ["label=Behavior", "fold=Subject", "group=Subject"]
    main([str(tmp_path / "all.csv"), "--task", "classes", "--no-check", "--columns", *columns])
    assert [*find_folds(tmp_path)] == ["ann", "bob", "eve"]
    assert read_videos(tmp_path / "fold_ann", "test") == ["0", "2"]
    assert "0.mp4,ann" in (tmp_path / "fold_bob" / "groups.csv").read_text()


def test_a_video_in_two_folds(tmp_path) -> None:
    file = tmp_path / "all.csv"
    file.write_text("video,start,end,label,fold\na.mp4,0,1,a,1\na.mp4,1,2,a,2\nb.mp4,0,1,a,2\n")
    with pytest.raises(ValueError, match=r"line 3: a.mp4 is in two folds"):
        fold_annotations(open_annotations(file), "segments", tmp_path, check=False)


def test_folds_of_folders_of_classes(tmp_path, capsys) -> None:
    """Also of two clips a class; folds of another number are not mixed with them."""
    for label in "abcdef":
        (tmp_path / label).mkdir()
        for number in range(2):
            (tmp_path / label / f"{label}{number}.mp4").touch()
    out = tmp_path / "lists"
    main([str(tmp_path), "--folds", "3", "--out", str(out), "--no-check"])
    assert "fold 3: 8 train, 0 val, 4 test" in capsys.readouterr().out
    tested = []
    for folder in find_folds(out).values():
        tested += read_videos(folder, "test")
        trained = {video[0] for video in read_videos(folder, "train")}
        assert trained == set("abcdef")
        assert (folder / "classes.txt").read_text().split() == [*"abcdef"]
    assert sorted(tested) == sorted(path.stem for path in tmp_path.glob("*/*.mp4"))
    with pytest.raises(FileExistsError, match="fold_1 has train.txt.* already; --force"):
        main([str(tmp_path), "--folds", "3", "--out", str(out), "--no-check"])
    with pytest.raises(FileExistsError, match="has other folds: fold_3; give another --out"):
        main([str(tmp_path), "--folds", "2", "--out", str(out), "--no-check", "--force"])
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--folds", "2", "--test", "0.1"])


def test_folds_of_folders_of_splits(tmp_path) -> None:
    for name in ("train", "test"):
        (tmp_path / name / "a").mkdir(parents=True)
        (tmp_path / name / "a" / f"{name}.mp4").touch()
    with pytest.raises(ValueError, match="states splits, and folds; leave one out"):
        main([str(tmp_path), "--folds", "2", "--no-check"])

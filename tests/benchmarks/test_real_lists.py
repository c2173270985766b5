"""Lists that data sets come with, as one csv file for ``mmvidformer data list``."""

import csv
from pathlib import Path

from benchmarks.real_lists import main
from mmvidformer.cli.data.list import main as list_videos

CLASSES = ("Archery", "Bowling")


def write_videos(folder: Path, paths: list[str]) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"not opened")


def read_rows(file: Path) -> list[tuple[str, ...]]:
    with file.open(newline="") as table:
        return [tuple(row) for row in csv.reader(table)]


def test_ucf101(tmp_path: Path) -> None:
    """Each of three folds tests two of seven videos; one is for training in all of them."""
    paths = [f"{name}/v_{name}_g{group}_c01.avi" for name in CLASSES for group in (1, 2, 3)]
    paths.append("Archery/v_Archery_g9_c01.avi")
    write_videos(tmp_path / "UCF-101", paths)
    lists = tmp_path / "ucfTrainTestlist"
    lists.mkdir()
    (lists / "classInd.txt").write_text("1 Archery\n2 Bowling\n")
    for fold in (1, 2, 3):
        tested = [path for path in paths if f"_g{fold}_" in path]
        trained = [f"{path} {1 + CLASSES.index(path.split('/')[0])}" for path in paths]
        trained = [line for line in trained if line.split(" ")[0] not in tested]
        (lists / f"testlist0{fold}.txt").write_text("\n".join(tested) + "\n")
        (lists / f"trainlist0{fold}.txt").write_text("\n".join(trained) + "\n")
    table = tmp_path / "all.csv"
    main([str(lists), "--videos", str(tmp_path / "UCF-101"), "--out", str(table)])
    out = tmp_path / "lists"
    list_videos([str(table), "--task", "classes", "--no-check", "--out", str(out)])
    for fold in (1, 2, 3):
        lines = (out / f"fold_{fold}" / "test.txt").read_text().splitlines()
        told = {(Path(line.split()[0]).name, line.split()[1]) for line in lines}
        names = [(f"v_{name}_g{fold}_c01.avi", str(CLASSES.index(name))) for name in CLASSES]
        assert told == {*names}
        training = (out / f"fold_{fold}" / "train.txt").read_text()
        assert len(training.splitlines()) == 5 and "_g9_" in training


def test_official_folds(tmp_path: Path) -> None:
    (tmp_path / "folds").mkdir()
    (tmp_path / "classes.txt").write_text("kick\nhug\n")
    for fold, line in (("01", "videos/a.avi 0"), ("02", "videos/b.avi 1")):
        (tmp_path / "folds" / f"set1_fold{fold}_test.txt").write_text(f"{line}\n")
    (tmp_path / "folds" / "set2_fold01_test.txt").write_text("videos/c.avi 1\n")
    main([str(tmp_path), "--name", "set1", "--out", str(tmp_path / "all.csv")])
    videos = tmp_path / "videos"
    assert read_rows(tmp_path / "all.csv") == [
        ("video", "label", "fold"),
        (str(videos / "a.avi"), "kick", "1"),
        (str(videos / "b.avi"), "hug", "2"),
    ]


def test_sources_are_groups(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("fight\nnone\n")
    (tmp_path / "sources.csv").write_text("video,source\na.mp4,x\nb.mp4,y\nc.mp4,x\n")
    for split, line in (("train", "a.mp4 0"), ("val", "b.mp4 1"), ("test", "c.mp4 1")):
        (tmp_path / f"{split}.txt").write_text(f"{line}\n")
    main([str(tmp_path), "--out", str(tmp_path / "all.csv")])
    assert [row[1:] for row in read_rows(tmp_path / "all.csv")] == [
        ("label", "group"), ("fight", "x"), ("none", "y"), ("none", "x"),
    ]  # fmt: skip

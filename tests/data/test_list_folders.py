"""One's own labeled videos, and their lists."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import av
import pytest

from mmvidformer.data.folders import NamedVideos, find_named, find_names
from mmvidformer.data.importers import open_annotations
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.data.splits import SPLITS
from mmvidformer.data.tables import Table
from mmvidformer.tasks.lists import split_annotations
from mmvidformer.video.containers import FORMATS, SUFFIXES

Rows = list[tuple[str, str, str]]  # video, label and split


def make_table(videos: Rows, folder: Path) -> Table:
    rows = [([*video], video[0]) for video in videos]
    return Table(folder / "all.csv", ["video", "label", "split"], rows, folder)


def split(videos: Rows, folder: Path, **settings) -> VideoLists:
    return split_annotations(
        make_table(videos, folder), "classes", folder, force=True, check=False, **settings
    )


def lines_of(folder: Path) -> dict[str, list[str]]:
    return {name: (folder / f"{name}.txt").read_text().splitlines() for name in SPLITS}


def read_folders(folder: Path) -> tuple[list[tuple[str, ...]], dict[str, str]]:
    """Return the rows of videos in folders of classes, relative to it, and what is left out."""
    table = open_annotations(folder, importer="class-folders")
    above = f"{folder}/"
    rows = [(values[0].removeprefix(above), *values[1:]) for values, _ in table.rows]
    return rows, {name.removeprefix(above): why for name, why in table.skipped.items()}


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")


@pytest.mark.parametrize(
    ("count", "val", "test", "expected"),
    [
        (1, 0.15, 0.15, (1, 0, 0)),
        (2, 0.15, 0.15, (1, 1, 0)),
        (2, 0.0, 0.15, (1, 0, 1)),
        (3, 0.15, 0.15, (1, 1, 1)),
        (3, 0.45, 0.45, (1, 1, 1)),
        (20, 0.15, 0.15, (14, 3, 3)),
        (20, 0.0, 0.0, (20, 0, 0)),
        (5, 0.49, 0.5, (1, 2, 2)),
    ],
)
def test_sizes_of_the_splits(tmp_path, count, val, test, expected) -> None:
    videos = [(f"{i}.mp4", "a", "") for i in range(count)]
    lists = split(videos, tmp_path, val=val, test=test)
    assert tuple(lists.counts.values()) == expected


def test_folders_that_are_links_are_followed(tmp_path) -> None:
    """As by torchvision; both classes of the same folder too, but not a folder inside itself."""
    touch(tmp_path, "store/day/b.mp4", "data/walk/a.mp4", "data/.hidden/c.mp4", "data/walk/x.txt")
    data = tmp_path / "data"
    (data / "run").symlink_to(tmp_path / "store")
    (data / "jog").symlink_to(tmp_path / "store")
    (data / "walk" / "self").symlink_to(data)
    (tmp_path / "store" / "day" / "up").symlink_to(tmp_path / "store")
    (data / "walk" / "gone").symlink_to(tmp_path / "nowhere")
    found = find_names(data)
    assert found == ["jog/day/b.mp4", "run/day/b.mp4", "walk/a.mp4"]
    with pytest.raises(ValueError, match="run/day/b.mp4: it is the same .*jog/day.* another class"):
        read_folders(data)
    (data / "jog").unlink()
    assert read_folders(data) == ([("run/day/b.mp4", "run"), ("walk/a.mp4", "walk")], {})
    (tmp_path / "linked").symlink_to(data)
    assert len(find_names(tmp_path / "linked")) == 2


def test_each_video_is_looked_at_once_for_all_classes(tmp_path) -> None:
    """A million videos of a thousand classes are 10^9 pairs; here it is a third of that."""
    videos = [(f"{i % 10_000}/{i}.mp4", str(i % 10_000), "") for i in range(30_000)]
    start = time.process_time()
    lists = split(videos, tmp_path)
    assert time.process_time() - start < 5  # else a minute
    assert lists.counts == dict.fromkeys(SPLITS, 10_000)


def test_splits_are_stratified_and_repeat(tmp_path) -> None:
    videos = [(f"{c}/{i}.mp4", c, "") for c in "ab" for i in range(20)]
    lists = split(videos, tmp_path, seed=1)
    assert [lists.facts[name].sizes for name in SPLITS] == [(14, 14), (3, 3), (3, 3)]
    lines = lines_of(tmp_path)
    split(videos[::-1], tmp_path, seed=1)
    assert lines_of(tmp_path) == lines
    split(videos, tmp_path, seed=2)
    assert lines_of(tmp_path) != lines
    split(videos[:20], tmp_path, seed=1)  # the draw of a class does not depend on other classes
    assert lines_of(tmp_path) == {
        name: [line for line in lines[name] if line.startswith("a/")] for name in SPLITS
    }
    with pytest.raises(ValueError, match="below 1 together, got 0.5, 0.5"):
        split(videos, tmp_path, val=0.5, test=0.5)


def test_folders_of_classes(tmp_path) -> None:
    touch(tmp_path, "run/a.mp4", "run/deep/b.AVI", "walk/c.mkv", "walk/notes.txt", "stray.mp4")
    touch(tmp_path, "walk/.hidden.mp4")
    (tmp_path / "jump").mkdir()
    (tmp_path / ".hidden").mkdir()
    rows, skipped = read_folders(tmp_path)
    assert rows == [("run/a.mp4", "run"), ("run/deep/b.AVI", "run"), ("walk/c.mkv", "walk")]
    assert skipped == {
        "stray.mp4": "it is in no folder of a class",
        "jump": "this folder of a class has no videos",
    }
    with pytest.raises(ValueError, match="has no CLASS/VIDEO, only 1 video outside; move each"):
        read_folders(tmp_path / "walk")
    with pytest.raises(FileNotFoundError, match="none does not exist"):
        read_folders(tmp_path / "none")
    (tmp_path / "none").mkdir()
    with pytest.raises(FileNotFoundError, match="none has no videos"):
        read_folders(tmp_path / "none")


def names_of_splits() -> list[list[str]]:
    """As HuggingFace's folders of images know them."""
    spellings = [["train", "validation", "test"], ["Train", "VALID", "Testing"]]
    return [*spellings, ["training", "dev", "evaluation"], ["train", "val", "eval"]]


@pytest.mark.parametrize("names", names_of_splits())
def test_names_of_splits(tmp_path, names) -> None:
    touch(tmp_path, *(f"{name}/{label}/a.mp4" for name in names for label in ("cat", "dog")))
    touch(tmp_path, f"{names[2]}/unlabeled.mp4")
    (tmp_path / names[1] / "cow").mkdir()
    rows, skipped = read_folders(tmp_path)
    stated = {(label, name) for label in ("cat", "dog") for name in SPLITS}
    assert len(rows) == 6 and {row[1:] for row in rows} == stated
    assert skipped == {
        f"{names[2]}/unlabeled.mp4": "it is in no folder of a class",
        f"{names[1]}/cow": "this folder of a class has no videos",
    }


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (["train/cat", "extra/cat"], "has the folder train of a split beside extra: put all"),
        (["cat", "dog", "test"], "has the folder test of a split beside cat, dog: put all"),
        (["Train", "val"], "has no SPLIT/CLASS/VIDEO, only 2 videos"),
    ],
)
def test_folders_of_which_only_some_are_splits(tmp_path, names, error) -> None:
    touch(tmp_path, *(f"{name}/a.mp4" for name in names))
    with pytest.raises(ValueError, match=error):
        read_folders(tmp_path)


def test_names_with_and_without_a_prefix(tmp_path) -> None:
    touch(tmp_path, "x.mp4", "v_x.webm", "v_y.mkv", "z.mp4", "sub/w.mp4")
    names = ["x", "v_x", "y", "v_z", "w.mp4", "gone"]
    videos = NamedVideos(tmp_path)
    paths = {name: videos.find(name) for name in names}
    assert {name: path.name for name, path in paths.items() if path} == {
        **{"x": "x.mp4", "v_x": "v_x.webm", "y": "v_y.mkv", "v_z": "z.mp4", "w.mp4": "w.mp4"}
    }
    assert [*find_named(tmp_path, names)] == ["x", "v_x", "w.mp4"]  # without a prefix


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("file:///C:/me/day%201/a%20b.mp4", "day 1/a b.mp4"),
        ("C:\\me\\day 2\\a b.mp4", "day 2/a b.mp4"),
        ("/home/me/day 2/a b.avi", "day 2/a b.mp4"),
        ("day 1/a b.mp4", "day 1/a b.mp4"),
        ("file:///media/c%25d.mp4", "c%d.mp4"),
        ("e:f.mp4", "e:f.mp4"),
        ("gone.mp4", None),
    ],
)
def test_paths_of_other_computers(tmp_path, name, path) -> None:
    """The file of that name, in the folder of that name if there are several."""
    touch(tmp_path, "day 1/a b.mp4", "day 2/a b.mp4", "c%d.mp4", "e:f.mp4")
    assert NamedVideos(tmp_path).find(name) == (path and tmp_path / path)
    with pytest.raises(ValueError, match="two files have the name 'a b': .*day 1.*and .*day 2"):
        NamedVideos(tmp_path).find("a b")


def test_one_file_in_two_folders(tmp_path) -> None:
    touch(tmp_path, "run/a.mp4", "run/c.mp4", "sit/d.mp4")
    (tmp_path / "run" / "b.mp4").hardlink_to(tmp_path / "run" / "a.mp4")
    rows, skipped = read_folders(tmp_path)
    assert [path for path, _ in rows] == ["run/a.mp4", "run/c.mp4", "sit/d.mp4"]
    assert skipped == {"run/b.mp4": f"it is the same file as {tmp_path / 'run/a.mp4'}"}
    (tmp_path / "sit" / "gone.mp4").symlink_to("nowhere")
    os.mkfifo(tmp_path / "sit" / "pipe.mp4")
    for name in ("sit/gone.mp4", "sit/pipe.mp4"):
        assert read_folders(tmp_path)[1][name] == "it is no file, or a link to nothing"
    (tmp_path / "sit" / "e.mp4").symlink_to("../run/c.mp4")
    with pytest.raises(ValueError, match="sit/e.mp4: it is the same file as .*c.mp4, in another"):
        read_folders(tmp_path)


def test_every_format_that_is_read_is_listed() -> None:
    """As FFmpeg calls such files, but for those of sound and pictures."""
    names = "webm mp4 ipod vob dvd mpeg1video mpeg2video ogv f4v psp ismv".split()
    extensions = set[str]()
    for name in FORMATS.split(","):
        extensions |= av.ContainerFormat(name, "r").extensions
        if name not in ("mpegvideo", "ogg"):
            extensions |= av.ContainerFormat(name, "w").extensions
    for name in names:
        extensions |= av.ContainerFormat(name, "w").extensions
    others = "avif heic heif ism isma m4a m4b mka mks ogg ra wma".split()
    missing = {f".{name}" for name in extensions.difference(others)} - SUFFIXES
    assert not missing


def test_other_files_are_counted(tmp_path, capsys) -> None:
    touch(tmp_path, "a.MTS", "b.gif", "c.txt", "d.TXT", "e", "f.npy", ".hidden", "sub/g.h264")
    assert [Path(name).name for name in find_names(tmp_path)] == ["a.MTS", "b.gif", "g.h264"]
    said = f"{tmp_path}: left out 4 other files: 2 .txt, 1 without a suffix, 1 .npy\n"
    assert capsys.readouterr().err == said
    touch(tmp_path / "only", "c.txt", *(f"a.{letter}" for letter in "abcdefgh"))
    what = r"has no videos, only 1 \.a, .* \.\.\.; to read c.txt, give"
    with pytest.raises(FileNotFoundError, match=what):
        find_names(tmp_path / "only")


def test_a_link_to_itself_ends_no_job(tmp_path) -> None:
    touch(tmp_path, "a.mp4")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone.mp4").symlink_to("nowhere")  # a video that is missing: named when it is read
    assert [Path(name).name for name in find_names(tmp_path)] == ["a.mp4", "gone.mp4"]


def test_a_folder_that_may_not_be_read_is_left_out(tmp_path, capsys, monkeypatch) -> None:
    """Such as lost+found on a disk; the tests may run as root, whom no permissions stop."""
    touch(tmp_path, "a.mp4", "lost+found/b.mp4")
    scan = os.scandir

    def refuse(folder: str) -> Iterator[os.DirEntry]:
        if folder.endswith("lost+found"):
            raise PermissionError(13, "Permission denied", folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    assert [Path(name).name for name in find_names(tmp_path)] == ["a.mp4"]
    assert "left out: [Errno 13] Permission denied" in capsys.readouterr().err
    with pytest.raises(PermissionError):
        find_names(tmp_path / "lost+found")

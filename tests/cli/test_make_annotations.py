"""The tool that lists one's own videos."""

import os
import shutil

import pytest

from mmvidformer.__main__ import main
from mmvidformer.data.splits import SPLITS
from mmvidformer.data.tables import Table
from mmvidformer.tasks.lists import split_annotations


@pytest.fixture
def folder(tiny_videos, tmp_path):
    """Classes of 4 videos, 1 video and none, a broken video and one outside."""
    for number in range(4):
        (tmp_path / "wave hand").mkdir(exist_ok=True)
        shutil.copy(tiny_videos.root / f"val_{number}.mp4", tmp_path / "wave hand")
    (tmp_path / "clap").mkdir()
    shutil.copy(tiny_videos.root / "val_4.mp4", tmp_path / "clap")
    (tmp_path / "clap" / "broken.mp4").write_bytes(b"no video")
    (tmp_path / "stray.mp4").touch()
    (tmp_path / "jump").mkdir()
    return tmp_path


def test_lists_counts_and_skipped_files(main_of, folder, capsys) -> None:
    list_videos = main_of("data.list")
    list_videos([str(folder)])
    said = capsys.readouterr().out
    assert f"skipped {folder / 'stray.mp4'}: it is in no folder of a class" in said
    assert f"skipped {folder / 'clap' / 'broken.mp4'}: " in said
    rows = [line.split() for line in said.splitlines()]
    assert ["clap", "1", "0", "0"] in rows
    assert ["wave", "hand", "2", "1", "1"] in rows
    assert ["all", "3", "1", "1"] in rows
    assert "class 'clap' is small: 1 training, 0 validation, 0 test videos" in said
    assert f"skipped {folder / 'jump'}: this folder of a class has no videos" in said
    assert 'delimiter="\\t"' in said
    assert (folder / "classes.txt").read_text() == "clap\nwave hand\n"
    assert "clap/val_4.mp4\t0\n" in (folder / "train.txt").read_text()
    with pytest.raises(FileExistsError, match="--force"):
        list_videos([str(folder)])
    list_videos([str(folder), "--force", "--val", "0", "--test", "0"])
    assert (folder / "val.txt").read_text() == ""
    assert "classes.txt" not in capsys.readouterr().out


def test_lists_elsewhere(main_of, folder) -> None:
    main_of("data.list")([str(folder), "--out", str(folder / "lists")])
    written = (folder / "lists" / "train.txt").read_text()
    assert f"{folder / 'clap' / 'val_4.mp4'}\t0\n" in written


def test_lists_of_a_folder_that_is_a_link(main_of, folder, tmp_path_factory, capsys) -> None:
    """Their paths are relative to it, as they are without the link."""
    link = tmp_path_factory.mktemp("links") / "videos"
    link.symlink_to(folder)
    main_of("data.list")([str(link), "--val", "0", "--test", "0"])
    lines = (folder / "train.txt").read_text().splitlines()
    assert lines[0] == "clap/val_4.mp4\t0" and len(lines) == 5
    with pytest.raises(ValueError, match="val_4.mp4 is a video; give the file of its annotations"):
        main_of("data.list")([str(folder / "clap" / "val_4.mp4")])


def test_a_name_that_is_no_text(folder, capsys) -> None:
    """Of an old disk. It is left out, and printed in a form that any terminal takes."""
    name = os.fsdecode(b"caf\xe9.mp4")
    shutil.copy(folder / "clap" / "val_4.mp4", folder / "clap" / name)
    assert main(["data", "list", str(folder)]) == 0
    said = capsys.readouterr().out
    assert (
        f"skipped {folder}/clap/caf\\udce9.mp4: its name is not text in UTF-8, which lists are"
        in said
    )
    assert "caf" not in "".join((folder / f"{split}.txt").read_text() for split in SPLITS)


def test_nothing_is_half_written(tmp_path) -> None:
    rows = [([os.fsdecode(b"caf\xe9.mp4"), "a", "train"], "line 1")]
    table = Table(tmp_path / "all.csv", ["video", "label", "split"], rows, tmp_path)
    with pytest.raises(ValueError, match="caf.*its name is not text in UTF-8"):
        split_annotations(table, "classes", tmp_path, check=False)
    assert not list(tmp_path.iterdir())

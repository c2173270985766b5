"""Datasets whose videos are re-encoded."""

import csv
import os

import pytest

pytest.importorskip("av", minversion="17")

from mmvidformer.data.list_folders import read_durations, read_groups
from mmvidformer.data.prepare import prepare_list
from tests.video.test_encode import write


@pytest.fixture
def videos(tmp_path):
    root = tmp_path / "videos"
    (root / "x").mkdir(parents=True)
    for name in ("a.mp4", "x/b.avi", "x/c d.mp4"):
        write(root / name, count=3, codec="mpeg4" if name.endswith("avi") else "libx264")
    (root / "bad.mp4").write_text("no video")
    (root / "train.txt").write_text("a 0\nbad.mp4 1\nx/b.avi 1\n")
    (root / "val.txt").write_text("x/gone.mp4 1\na.mp4 2\n")
    return root


def run(*files, out, **options):
    options = {"workers": 1, "short_side": 256, **options}
    return sum(prepare_list(file, out, **options) for file in files)


def test_videos_lists_and_bad_videos(videos, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(videos / "train.txt", videos / "val.txt", out=out, root=videos) == 2
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert files == {
        *("a.mp4", "x/b.avi.mp4"),
        *("train.txt", "train_bad.csv", "val.txt", "val_bad.csv"),
    }
    assert (out / "train.txt").read_text() == "a.mp4 0\nx/b.avi.mp4 1\n"
    assert (out / "val.txt").read_text() == "a.mp4 2\n"
    with (out / "train_bad.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row["line"] == "2" and row["path"] == str(videos / "bad.mp4")
    assert "damaged" in row["reason"]
    assert capsys.readouterr().out.count("1 videos are bad") == 2


def test_groups_and_durations_go_with_the_lists(videos, tmp_path):
    """Of all lists of the folder, and of lists that another run wrote there."""
    (videos / "groups.csv").write_text('video,group\na,p0\nx/b.avi,"p 1, left"\nx/gone.mp4,\n')
    (videos / "durations.csv").write_text("video,seconds\nx/b.avi,64.000\n../other.mp4,3\n")
    out = tmp_path / "out"
    out.mkdir()
    (out / "groups.csv").write_text("video,group\nearlier.mp4,p9\na.mp4,wrong\n")
    run(videos / "train.txt", videos / "val.txt", out=out, root=videos)
    assert read_groups(out) == {
        str(out / "earlier.mp4"): "p9",
        str(out / "a.mp4"): "p0",
        str(out / "x/b.avi.mp4"): "p 1, left",
        str(out / "x/gone.mp4"): "",
    }
    assert read_durations(out / "durations.csv") == {"x/b.avi.mp4": 64.0}


def test_a_second_run_skips_what_exists(videos, tmp_path, capsys):
    out = tmp_path / "out"
    run(videos / "train.txt", out=out, root=videos)
    before = (out / "a.mp4").stat()
    (out / "x" / "b.avi.mp4").unlink()
    (out / "x" / ".z.mp4.9.part").write_text("being written by another machine")
    write(videos / "bad.mp4", count=3)  # repaired
    assert run(videos / "train.txt", out=out, root=videos) == 0
    assert (out / "a.mp4").stat() == before
    assert {path.name for path in (out / "x").iterdir()} == {"b.avi.mp4", ".z.mp4.9.part"}
    assert (out / "train.txt").read_text() == "a.mp4 0\nbad.mp4 1\nx/b.avi.mp4 1\n"
    assert "3 videos, 1 of them already in " in capsys.readouterr().out


def test_paths_with_blanks(videos, tmp_path):
    (videos / "list.txt").write_text("x/c d.mp4\t4\n")
    out = tmp_path / "out"
    assert run(videos / "list.txt", out=out, root=videos) == 0
    assert (out / "list.txt").read_text() == "x/c d.mp4\t4\n" and (out / "x/c d.mp4").exists()


def test_absolute_paths_become_relative(videos, tmp_path):
    (videos / "list.txt").write_text(f"{videos}/x/b.avi 4\n")
    assert run(videos / "list.txt", out=tmp_path / "out", root=videos) == 0
    assert (tmp_path / "out" / "list.txt").read_text() == "x/b.avi.mp4 4\n"


def test_two_results_in_one_file_are_refused(videos, tmp_path):
    (videos / "list.txt").write_text("x/b.avi 0\nx/b.avi.mp4 1\n")
    with pytest.raises(ValueError, match=r"b\.avi and \S+b\.avi\.mp4 would both be written to"):
        run(videos / "list.txt", out=tmp_path / "out", root=videos)


def test_wrong_arguments_are_refused(videos, tmp_path):
    with pytest.raises(ValueError, match="the results need another folder than .*, that of the"):
        run(videos / "train.txt", out=videos, root=videos)
    (videos / "outside.txt").write_text(f"{tmp_path}/a.mp4 0\n")
    with pytest.raises(ValueError, match="is not below the folder"):
        run(videos / "outside.txt", out=tmp_path / "out", root=videos)
    assert not (tmp_path / "out").exists()


def test_tool(videos, tmp_path, main_of, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main = main_of("data.prepare")
    (videos / "good.txt").write_text("a.mp4 0\n")
    options = ["--root", str(videos), "--short-side", "32", "--workers", "1"]
    assert main([str(videos / "good.txt"), "--out", "good", *options]) == 0
    assert main([str(videos / "train.txt"), "--out", "bad", *options]) == 1
    assert os.path.getsize("good/a.mp4") > 0 and os.path.exists("bad/x/b.avi.mp4")
    for wrong in ((str(videos / "train.txt"),), ("--crf", "52"), ("--short-side", "0")):
        with pytest.raises(SystemExit):
            main([str(videos / "train.txt"), "--out", "wrong", *wrong])
    assert not (tmp_path / "wrong").exists()


def test_lists_of_all_tasks(videos, tmp_path):
    """Rows stay as they are, but for the names of the videos; several are of one video."""
    out = tmp_path / "out"
    rows = ["label;start;video;end", "a.mp4;0,5;a.mp4;1,250", "run;1;a.mp4;2"]
    last = '"x;y";0;{};1'
    text = "\n".join([*rows, "sit;0;bad.mp4;1", last.format("x/b.avi"), ""])
    (videos / "spans.csv").write_text(text)
    assert run(videos / "spans.csv", out=out, root=videos) == 1
    text = "\n".join([*rows, last.format("x/b.avi.mp4"), ""])
    assert (out / "spans.csv").read_text() == text
    with (out / "spans_bad.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row["line"] == "4" and row["path"] == str(videos / "bad.mp4")

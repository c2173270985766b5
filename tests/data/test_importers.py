"""Exports of annotation tools: recognized by content, with rows, places and what is left out."""

import gzip
import json
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from mmvidformer.data.importers import IMPORTERS, find_format, find_importer, open_annotations
from mmvidformer.data.importers.export import Export
from mmvidformer.errors import UserError
from mmvidformer.tasks.imports import guess_task, select_rows
from mmvidformer.tasks.table import find_task

ROOT = Path(__file__).parents[2]


def rows_of(table, *columns: str) -> list[tuple[str, ...]]:
    """Values of columns, the video by its name."""
    names = ("video", *columns)
    rows = [tuple(row.get(name) or "" for name in names) for row, _ in table.read()]
    return [(Path(video).name, *values) for video, *values in rows]


# The structure of MMAction2's tests/data/annotations/action_test_anno.json (BMN: no database, no
# subset; commit 51696fe4), and of activity_net.v1-3.min.json.
BMN = {
    "v_one": {"duration_second": 2.0, "annotations": [{"segment": [0.5, 1.25], "label": "jump"}]},
    "two": {"duration_second": 2.0, "annotations": []},
}
ACTIVITYNET = {
    "version": "VERSION 1.3",
    "taxonomy": [{"nodeId": 1, "nodeName": "jump", "parentId": None}],
    "database": {name: {**video, "subset": "training", "url": ""} for name, video in BMN.items()},
}


@pytest.mark.parametrize("content", [BMN, ACTIVITYNET], ids=["bmn", "activitynet"])
@pytest.mark.parametrize("name", ["a.json", "a.txt", "a.gz"])
def test_activitynet_and_relatives(content, name: str, tmp_path: Path) -> None:
    for video in ("one.mp4", "two.webm"):
        (tmp_path / video).touch()
    text = json.dumps(content).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name == "a.gz" else text)
    table = open_annotations(tmp_path / name)
    assert table.importer == "activitynet"
    assert rows_of(table, "start", "end", "label") == [
        ("one.mp4", "0.5", "1.25", "jump"),
        ("two.webm", "", "", ""),
    ]
    assert guess_task(table).name == "segments"


def test_other_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1')
    with pytest.raises(ValueError, match=r"a\.json is no JSON: Expecting ',' delimiter: line 1"):
        open_annotations(tmp_path / "a.json")
    (tmp_path / "a.json").write_text('{"a": 1}')
    with pytest.raises(ValueError, match=r"a\.json is no table, and of no tool that is known: act"):
        open_annotations(tmp_path / "a.json")
    with pytest.raises(FileNotFoundError, match=r"b\.json does not exist"):
        open_annotations(tmp_path / "b.json")
    for content in (b"", b"\xef\xbb\xbf\r\n\r\n"):
        (tmp_path / "a.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.json is empty"):
            open_annotations(tmp_path / "a.json")
    (tmp_path / "a.json").unlink()
    assert find_format(tmp_path) == "class-folders"


ENTITIES = """<?xml version="1.0"?>
<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>
<a>&c;</a>"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(ENTITIES.encode(encoding))
    with pytest.raises(ValueError, match=r"a\.xml has a DOCTYPE or entities, which are not read"):
        open_annotations(tmp_path / "a.xml")
    (tmp_path / "a.xml").write_text("<a><b></a>")
    with pytest.raises(ValueError, match=r"a\.xml is no XML: mismatched tag"):
        open_annotations(tmp_path / "a.xml")


@pytest.fixture
def bookmarks(tiny_videos, tmp_path: Path, monkeypatch) -> Path:
    """An export of two moments and a comment, and the importer of docs/extending.md."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    (tmp_path / "day").mkdir()
    for name in ("val_0.mp4", "val_1.mp4"):
        (tmp_path / "day" / name).symlink_to(tiny_videos.root / name)
    lines = ["BOOKMARKS", "/sd/val_0.mp4|5|fall", "val_1.mp4|0|hit", "val_1.mp4|3|# a note"]
    (tmp_path / "player.txt").write_text("\n".join([*lines, "gone.mp4|7|hit"]))
    return tmp_path / "player.txt"


def test_an_importer_of_a_module(bookmarks: Path, main_of, capsys) -> None:
    options = ["--format", "bookmarks", "--val", "0.5", "--test", "0"]
    main_of("data.list")([str(bookmarks), *options])
    out = capsys.readouterr().out
    assert f"{bookmarks}: read as bookmarks, --task moments" in out
    assert "skipped gone.mp4: it is not in " in out
    assert "left out: 1 comment" in out and "moments" not in out.split("written")[1]
    # The 6th frame of 12 per second.
    lists = "".join((bookmarks.parent / f"{split}.csv").read_text() for split in ("train", "val"))
    assert "val_0.mp4,0.416667,fall" in lists and "val_1.mp4,0.0,hit" in lists
    assert main_of("data.check")([str(bookmarks), *options[:2]]) == 1
    assert "gone.mp4: it is not in " in capsys.readouterr().out


def test_an_importer_in_the_table(bookmarks: Path, monkeypatch) -> None:
    monkeypatch.setitem(IMPORTERS, "player", find_importer("bookmarks"))
    table = open_annotations(bookmarks)
    assert table.importer == "player" and len(table.rows) == 2
    by_time = open_annotations(bookmarks, columns={"label": "time"})
    assert rows_of(by_time, "label") == [("val_0.mp4", "0.416667"), ("val_1.mp4", "0.0")]
    with pytest.raises(ValueError, match="player.txt has no column 'tier', only .*'time'"):
        open_annotations(bookmarks, columns={"label": "tier"})
    with pytest.raises(ValueError, match="--format must be activitynet.*; nothing: No module"):
        open_annotations(bookmarks, importer="nothing")
    bookmarks.write_text("BOOKMARKS\nval_0.mp4|x|fall")
    with pytest.raises(ValueError, match=r"player\.txt, line 2 is damaged: ValueError invalid lit"):
        open_annotations(bookmarks)
    export = Export(bookmarks)
    assert export.size("val_0.mp4") == (64, 32) and export.size("gone.mp4") is None


def test_a_task_takes_its_rows(tmp_path: Path) -> None:
    """The others are counted; an export is for the task of most of its rows."""
    for name in ("one.mp4", "two.mp4"):
        (tmp_path / name).touch()
    segments = [{"segment": ends, "label": "jump"} for ends in ([0, 1], [2, 3], [4, 4])]
    content = {"one": {"annotations": segments}, "two": {"annotations": []}}
    (tmp_path / "a.json").write_text(json.dumps(content))
    table = open_annotations(tmp_path / "a.json")
    segments = select_rows(table, guess_task(table).nouns)
    assert [row[1] for row in rows_of(segments, "start")] == ["0", "2", ""]
    assert segments.left_out == {"moment": 1}
    moments = select_rows(table, find_task("moments").nouns)
    assert [row[1] for row in rows_of(moments, "time")] == ["4", ""]
    others = "2 segments, 1 moment, 1 video without annotations"
    with pytest.raises(ValueError, match=f"a.json has no label; left out: {others}"):
        select_rows(table, find_task("classes").nouns)


def test_columns_of_other_names(tiny_videos, tmp_path: Path, main_of, capsys) -> None:
    """A table of no known tool: as R or a spreadsheet names its columns."""
    rows = [f"{tiny_videos.root}/val_{n}.mp4;0,5;1,5;Grooming;{n}" for n in range(2)]
    (tmp_path / "all.csv").write_text("\n".join(["File;Start (s);Stop (s);Behavior;label", *rows]))
    names = ["video=File", "start=Start (s)", "end=Stop (s)", "label=Behavior"]
    command = [str(tmp_path / "all.csv"), "--task", "segments", "--columns", *names]
    main_of("data.list")([*command, "--val", "0.5", "--test", "0"])
    assert (tmp_path / "classes.txt").read_text() == "Grooming\n"
    assert (tmp_path / "train.csv").read_text().splitlines()[1].endswith(".mp4,0.5,1.5,Grooming")
    assert main_of("data.check")(command) == 0
    with pytest.raises(ValueError, match=r"all.csv has no column 'Begin', only \['File', 'Start"):
        main_of("data.check")([*command[:4], "start=Begin"])
    with pytest.raises(SystemExit):
        main_of("data.check")([*command[:4], "start"])
    assert "--columns must be NAME=COLUMN, got 'start'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"[" * 100_000, "is no JSON: (maximum recursion depth|Stack overflow)"),
        (gzip.compress(b"x" * 2000)[:-12], "is damaged"),
        (gzip.compress(b"x" * 2000)[:30] + b"y" * 30, "is damaged"),
        (b"PK\x03\x04" + b"x" * 100, "is damaged"),
        (gzip.compress(b"x" * 2**21), "has more than 1 MiB; unpack it yourself"),
    ],
    ids=["deep", "cut", "changed", "zip", "huge"],
)
def test_files_that_are_no_export(content: bytes, error: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("mmvidformer.data.importers.export.MOST_BYTES", 2**20)
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(UserError, match=f"a.json {error}"):
        open_annotations(tmp_path / "a.json")


def test_an_encrypted_or_huge_zip(tmp_path: Path, monkeypatch) -> None:
    with ZipFile(tmp_path / "a.zip", "w", ZIP_DEFLATED) as archive:
        archive.writestr("a.json", "[" + " " * 2**21 + "]")
    monkeypatch.setattr("mmvidformer.data.importers.export.MOST_BYTES", 2**20)
    with pytest.raises(UserError, match="a.zip has more than 1 MiB"):
        open_annotations(tmp_path / "a.zip")
    content = bytearray((tmp_path / "a.zip").read_bytes())
    content[6] |= 1  # says that it is encrypted
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(UserError, match="a.zip is damaged, or encrypted: .*password"):
        open_annotations(tmp_path / "a.zip")


def test_lists_of_mmaction2(tiny_videos, tmp_path: Path, main_of) -> None:
    """Names of classes of the file beside them; several classes make another task of them."""
    for name in ("a.mp4", "b c.mp4"):
        (tmp_path / name).symlink_to(tiny_videos.root / "val_0.mp4")
    (tmp_path / "my_train.txt").write_text("a.mp4\t1\nb c.mp4\t0\t1\n")
    (tmp_path / "val.txt").write_text("a.mp4 1\n")
    table = open_annotations(tmp_path / "val.txt")
    rows = [row for row, _ in table.read("video", "label", "split")]
    assert table.importer == "mmaction2"
    assert rows == [{"video": str(tmp_path / "a.mp4"), "label": "1", "split": "val"}]
    (tmp_path / "classes.txt").write_text("run\nsit\n")
    table = open_annotations(tmp_path / "my_train.txt")
    assert [(values[1], values[2]) for values, _ in table.rows] == [
        *(("sit", "train"), ("run", "train"), ("sit", "train"))
    ]
    assert guess_task(table).name == "labels"
    (tmp_path / "classes.txt").write_text("run\n")
    with pytest.raises(ValueError, match=r"val\.txt, line 1: label 1 has no name in .*classes.txt"):
        open_annotations(tmp_path / "val.txt")
    (tmp_path / "classes.txt").write_text("run\nsit\n")
    out = tmp_path / "out"
    main_of("data.list")([str(tmp_path / "my_train.txt"), "--out", str(out), "--no-check"])
    assert (out / "train.txt").read_text() == f"{tmp_path}/a.mp4\t1\n{tmp_path}/b c.mp4\t0\t1\n"
    assert (out / "classes.txt").read_text() == "run\nsit\n"


def test_a_list_without_classes(tmp_path: Path) -> None:
    """As the official tests of UCF101 are."""
    (tmp_path / "testlist01.txt").write_text("run/v_1.avi\nrun/v_2.avi\n")
    with pytest.raises(ValueError, match="PATH NUMBER, or give a csv video,label, or UCF101"):
        open_annotations(tmp_path / "testlist01.txt")

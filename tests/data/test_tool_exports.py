"""Exports of tools and data sets: cut down from files that these wrote, or in their words."""

import json
from pathlib import Path

import pytest

from mmvidformer.data.importers import find_format, open_annotations
from mmvidformer.errors import UserError
from mmvidformer.tasks.imports import guess_task
from tests.data.exports import (
    BOX,
    KEYFRAMES,
    KINETICS,
    KINETICS_JSON,
    SPAN,
    VIA,
    read,
    rows_of,
    task_of,
    timeline,
    write_track,
)


def test_projects_of_via(folder: Path) -> None:
    table = read(folder / "a.json", VIA, "via")
    spans = [("0.500", "1.250", "Pant Hoot", "loud;low"), ("", "", "", "")]
    assert rows_of(table, *SPAN, "sound", task="segments") == spans
    assert rows_of(table, "time", "label", task="moments")[0] == ("0.750", "Drum")
    box = ("1.000", "0.250", "0.250", "0.750", "0.750", "Drum", "")
    assert rows_of(table, *BOX, task="boxes") == [box]
    assert rows_of(table, "label", task="classes") == [("free text",)]
    assert table.left_out == {"point": 1, "unlabelled annotation": 1}
    broken = {**VIA, "view": {}, "file": {}}
    (folder / "a.json").write_text(json.dumps(broken))
    with pytest.raises(ValueError, match=r"a\.json, annotation 1_a is damaged: KeyError '1'"):
        open_annotations(folder / "a.json")


# Rows of ava_train_v2.2.csv (CC BY 4.0), of a video that is called t here; the negative is one of
# SlowFast's lists of detected persons.
AVA = """t,0902,0.077,0.151,0.283,0.811,80,1
t,0902,0.077,0.151,0.283,0.811,9,1
t,0902,0.226,0.032,0.366,0.497,-1,0.9
"""


@pytest.mark.parametrize(
    "form",
    ['item {{\n  name: "{}"\n  id: {}\n}}\n', 'label {{\n  name: "{}"\n  label_id: {}\n}}\n'],
)
def test_boxes_of_ava_have_names(form: str, folder: Path) -> None:
    names = (("watch (a person)", 80), ("run/jog", 9))
    (folder / "list.pbtxt").write_text("".join(form.format(*name) for name in names))
    table = read(folder / "a.csv", AVA, "ava")
    assert rows_of(table, *BOX, task="boxes") == [
        ("902.000", "0.077", "0.151", "0.283", "0.811", "watch (a person)", "1.000"),
        ("902.000", "0.077", "0.151", "0.283", "0.811", "run/jog", "1.000"),
    ]
    assert table.left_out == {"unlabelled row": 1}
    (folder / "list.pbtxt").write_text(form.format(*names[0]))
    with pytest.raises(ValueError, match=r"a\.csv, line 2: class 9 has no name in .*list\.pbtxt"):
        open_annotations(folder / "a.csv")


@pytest.mark.parametrize(("name", "content"), [("a.csv", KINETICS), ("a.json", KINETICS_JSON)])
def test_clips_of_kinetics(name: str, content: object, tmp_path: Path) -> None:
    """Files are called by the video, with or without the times."""
    (tmp_path / "val").mkdir()
    (tmp_path / "val" / "-3B32lodo2M_000059_000069.mp4").touch()
    (tmp_path / "_dbcJuKJQNs.mkv").touch()
    table = read(tmp_path / name, content, "kinetics")
    assert rows_of(table, "label", "split") == [("abseiling", "val"), ("air drumming", "val")]
    assert guess_task(table).name == "classes" and not table.skipped


def test_test_clips_of_kinetics_have_no_class(tmp_path: Path) -> None:
    (tmp_path / "-3B32lodo2M.mp4").touch()
    rows = "youtube_id,time_start,time_end,split\n-3B32lodo2M,59,69,test\n"
    with pytest.raises(ValueError, match="no annotations of videos; left out: 1 unlabelled clip"):
        read(tmp_path / "test.csv", rows, "kinetics")


@pytest.mark.parametrize(
    ("name", "split"),
    [("something-something-v2-train.json", "train"), ("validation.json", "val"), ("a.json", "")],
)
def test_templates_of_something_something(name: str, split: str, tmp_path: Path) -> None:
    """The classes of its own labels.json have no brackets."""
    (tmp_path / "78687.webm").touch()
    row = {
        "id": "78687",
        "label": "holding potato next to vicks vaporub bottle",
        "template": "Holding [something] next to [something]",
        "placeholders": ["potato", "vicks vaporub bottle"],
    }
    table = read(tmp_path / name, [row], "something-something")
    assert rows_of(table, "label", "split") == [("Holding something next to something", split)]


def test_a_folder_of_exports(folder: Path) -> None:
    """CVAT writes a file for each video, data sets one for each split."""
    exports = folder / "exports"
    exports.mkdir()
    (exports / "labels.json").write_text('{"walk": "0"}')
    (exports / "1.xml").write_text(write_track(KEYFRAMES[0], KEYFRAMES[2]))
    (exports / "2.xml").write_text(write_track(KEYFRAMES[0]).replace("t.mp4", "u v.mp4"))
    (exports / "3.json").write_text(json.dumps(task_of(timeline(1, 6))))
    table = open_annotations(exports, folder)
    assert rows_of(table, *SPAN, task="segments") == [
        ("0.000", "0.500", "bird"),
        ("0.000", "2.000", "bird"),
        ("0.000", "0.500", "walk"),
    ]
    assert table.importer == "folder" and table.left_out == {"other file": 1}
    with pytest.raises(UserError, match="none of the 2 videos of .*exports is in .*exports"):
        open_annotations(exports)
    assert find_format(folder) == "class-folders"  # which has videos


def test_splits_in_names_of_files(folder: Path) -> None:
    (folder / "e").mkdir()
    (folder / "e" / "list.pbtxt").write_text('item {\n  name: "run"\n  id: 9\n}\n')
    for split, video in (("train", "t"), ("val", "u v")):
        row = f"{video},0902,0.077,0.151,0.283,0.811,9,1\n"
        (folder / "e" / f"ava_{split}_v2.2.csv").write_text(row)
    table = open_annotations(folder / "e", folder)
    assert rows_of(table, "split", "label") == [("train", "run"), ("val", "run")]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_folders_of_huggingface(suffix: str, tmp_path: Path) -> None:
    folder = tmp_path / "validation"
    (folder / "clips").mkdir(parents=True)
    (folder / "clips" / "a.mp4").touch()
    row = {"file_name": "clips/a.mp4", "label": "jump", "text": "a frog, it jumps"}
    text = f'{",".join(row)}\nclips/a.mp4,jump,"a frog, it jumps"\n'
    text = json.dumps(row) + "\n" if suffix == "jsonl" else text
    table = read(folder / f"metadata.{suffix}", text, "huggingface")
    rows = [("jump", "a frog, it jumps", "val")]
    assert rows_of(table, "label", "text", "split") == rows
    (tmp_path / "train" / "clips").mkdir(parents=True)
    (tmp_path / "train" / "clips" / "a.mp4").touch()
    (tmp_path / "train" / "metadata.csv").write_text("file_name,label\nclips/a.mp4,sit\n")
    table = open_annotations(tmp_path)
    assert rows_of(table, "label", "text", "split") == [("sit", "", "train"), *rows]
    videos = [row["video"] for row, _ in table.read("video")]
    assert videos == [str(tmp_path / split / "clips/a.mp4") for split in ("train", "validation")]

"""Faults of annotations are found before lists are written, and named by file and line."""

import json
import re
import unicodedata
from pathlib import Path

import pytest

from mmvidformer.data.importers import open_annotations
from mmvidformer.engine.errors import run_tool
from mmvidformer.storage.names import describe_other_form
from mmvidformer.tasks.checks import find_annotation_faults
from mmvidformer.tasks.lists import split_annotations

SPANS = "video,start,end,label\nval_0.mp4,0.8,0.2,run\n"
WRONG = "start must be at least 0 and below end, got 0.8 to 0.2"


@pytest.mark.parametrize("task", ["frames", None])
@pytest.mark.parametrize(
    "text",
    [
        SPANS,
        SPANS.replace("video,start,end,label", '"video","start","end","label"'),
        SPANS.replace("video,start,end,label", "video, start , end, label"),
        SPANS.replace("\n", "\r\n"),
        "end,label,video,start\r\n0.2,run,val_0.mp4,0.8\r\n",
        "\ufeff" + SPANS,
    ],
    ids=["plain", "quoted", "spaces", "crlf", "crlf, start last", "mark"],
)
def test_headers_are_read_as_in_training(folder: Path, text: str, task: str | None) -> None:
    (folder / "all.csv").write_bytes(text.encode())
    faults, _ = find_annotation_faults(open_annotations(folder / "all.csv", folder), task)
    assert faults == [f"{folder / 'all.csv'}, line 2: {WRONG}"]


@pytest.mark.parametrize(
    ("text", "task", "error"),
    [
        (SPANS.replace(",", "|"), "frames", "has no column video, start, end, label, only"),
        ("video,start,end,label,label\n", "frames", "has the column 'label' twice"),
        (SPANS.partition("\n")[2], "frames", "has no column video, start, end, label, only"),
        (SPANS.partition("\n")[2], None, r"has no column video, only \['val_0.mp4', '0.8', '0.2'"),
        (SPANS.replace("label", "class"), None, "has no column label, only"),
        (SPANS.replace("start", "begin"), "segments", "has no column start, only"),
        ("video,class\nval_0.mp4,run\n", "labels", "has no column label, only"),
    ],
)
def test_a_column_that_is_missing_is_named(
    folder: Path, main_of, capsys, text: str, task: str | None, error: str
) -> None:
    (folder / "all.csv").write_text(text)
    with pytest.raises(ValueError, match=error):
        find_annotation_faults(open_annotations(folder / "all.csv", folder), task)
    options = [str(folder / "all.csv"), *(["--task", task] if task else [])]
    assert run_tool(lambda: main_of("data.check")(options)) == 2
    assert " column" in capsys.readouterr().err


def test_the_task_is_not_mistaken_for_boxes(folder: Path, main_of, capsys) -> None:
    (folder / "all.csv").write_text(
        SPANS.replace("video,start,end,label", '"video",start,end,label')
    )
    assert main_of("data.check")([str(folder / "all.csv"), "--task", "frames"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{folder / 'all.csv'}, line 2: {WRONG}",
        f"{folder / 'all.csv'}: 1 fault",
    ]


def test_the_videos_of_a_folder(folder: Path, main_of, capsys) -> None:
    (folder / "bad.MTS").write_bytes(b"no video")
    assert main_of("data.check")([str(folder)]) == 1
    fault, count = capsys.readouterr().out.splitlines()
    assert fault.startswith(f"{folder / 'bad.MTS'}: ") and count == f"{folder}: 1 fault"
    assert {path.suffix for path in folder.iterdir()} == {".mp4", ".MTS"}  # nothing is written


ROWS = "val_0.mp4,0,1,run\nval_1.mp4,1,2,sit\n"


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("zz.mp4,0,1,run", "line 4: video .*zz.mp4 does not exist"),
        ("val_1.mp4,0,99,run", "line 4: 99 s is after the end of val_1.mp4, at 2.00 s"),
        ('val_1.mp4,0,0.5,"run\nfast"', r"label 'run\\nfast' has a line break"),
        (",0,1,run", "line 4: video is empty"),
    ],
    ids=["missing", "late", "line break", "no video"],
)
def test_faults_are_named_before_lists_are_written(folder, main_of, capsys, row, error) -> None:
    (folder / "all.csv").write_text(f"video,start,end,label\n{ROWS}{row}\n")
    command = [str(folder / "all.csv"), "--task", "segments", "--out", str(folder / "lists")]
    assert run_tool(lambda: main_of("data.list")(command)) == 2
    said = capsys.readouterr().err
    assert "has 1 fault; --no-check does not look into the videos:" in said
    with pytest.raises(ValueError, match=error):
        split_annotations(open_annotations(folder / "all.csv"), "segments", folder / "lists")
    assert not (folder / "lists").exists()


def test_spaces_at_ends_make_no_new_class(folder: Path) -> None:
    rows = "val_0.mp4,0,1,run ,train\nval_0.mp4 ,1,2,run,train\n"
    (folder / "all.csv").write_text(f"video,start,end,label,split\n{rows}")
    lists = split_annotations(open_annotations(folder / "all.csv"), "segments", folder / "lists")
    assert lists.classes == ("run",) and lists.counts["train"] == 1


@pytest.mark.parametrize("name", ["a\nb", "a\tb"])
def test_classes_that_lists_cannot_hold(folder: Path, name: str) -> None:
    (folder / "all.csv").write_text(f'label,video\n"{name}",val_0.mp4\nc,val_1.mp4\n')
    with pytest.raises(ValueError, match="has a space at an end, a tab or a line break"):
        split_annotations(open_annotations(folder / "all.csv"), "labels", folder / "lists")
    assert not (folder / "lists").exists()


def test_a_short_row_without_its_video(folder: Path) -> None:
    (folder / "all.csv").write_text("label,video\nrun,val_0.mp4\nsit\n")
    with pytest.raises(ValueError, match="all.csv, line 3: video is empty"):
        split_annotations(open_annotations(folder / "all.csv"), "labels", folder / "lists")


@pytest.mark.parametrize("force", [True, False])
def test_lists_do_not_overwrite_the_annotations(folder: Path, force: bool) -> None:
    rows = "video,speed\nval_0.mp4,1\nval_1.mp4,2\n"
    (folder / "train.csv").write_text(rows)
    (folder / "linked").symlink_to(folder)
    for out in (folder, folder / "linked"):
        with pytest.raises(FileExistsError, match="would overwrite .*train.csv; rename it or give"):
            split_annotations(open_annotations(folder / "train.csv"), "number", out, force=force)
    assert (folder / "train.csv").read_text() == rows
    split_annotations(open_annotations(folder / "train.csv"), "number", folder / "out", 0, 0.5)


def test_missing_videos_of_activitynet_are_named(folder: Path, main_of, capsys) -> None:
    span = {"segment": [0, 1], "label": "run"}
    database = {
        name: {"subset": subset, "annotations": [span, span]}
        for name, subset in (("val_0", "training"), ("val_1", "validation"), ("gone", "testing"))
    }
    (folder / "all.json").write_text(json.dumps({"database": database}))
    main_of("data.list")(
        [str(folder / "all.json"), "--task", "segments", "--out", str(folder / "x")]
    )
    assert capsys.readouterr().out.splitlines() == [
        f"{folder}/all.json: read as activitynet, --task segments",
        f"skipped gone: it is not in {folder}",
        "left out: 2 repeated rows:",
        f"{folder}/all.json, val_0 repeats val_0",
        f"{folder}/all.json, val_1 repeats val_1",
        "run",
        "videos: 1 train, 1 val, 0 test",
        "no video is for testing",
        f"written to {folder / 'x'}",
    ]
    faults, _ = find_annotation_faults(open_annotations(folder / "all.json", folder), "segments")
    assert len(faults) == 3 and faults[-1].endswith(f"gone: it is not in {folder}")


PAIRS = {
    "classes": ("video,label\n{0},run\n{1},run\n", "line 3 repeats line 2"),
    "labels": ("video,label\n{0},run;sit\n{1},sit\n", "line 3 repeats line 2"),
    "number": ("video,speed\n{0},1\n{1},1.0\n", "line 3 repeats line 2"),
    "frames": ("video,start,end,label\n{0},0,1,run\n{1},0,1.0,run\n", "line 3 repeats line 2"),
    "segments": ("video,start,end,label\n{0},0,1,run\n{1},0,1,run\n", "line 3 repeats line 2"),
    "boxes": ("{0},1,0,0,1,1,1\n{1},1,0.0,0,1,1,1\n", "line 2 repeats line 1"),
}


@pytest.mark.parametrize("task", PAIRS)
def test_a_row_twice(folder: Path, main_of, task: str) -> None:
    """``data check`` names it, and lists and training have it once."""
    text, error = PAIRS[task]
    rows = text.format("val_0.mp4", "val_0.mp4")
    rows += rows.splitlines()[-1].replace("val_0", "val_1")
    (folder / "all.csv").write_text(f"{rows}\n")
    (folder / "classes.txt").write_text("run\nsit\n")
    faults, _ = find_annotation_faults(open_annotations(folder / "all.csv", folder), task)
    assert faults == [f"{folder / 'all.csv'}, {error}"]
    lists = split_annotations(
        open_annotations(folder / "all.csv"), task, folder / "lists", val=0.5, test=0
    )
    assert lists.counts == {"train": 1, "val": 1, "test": 0}
    for split in ("train", "val"):
        (file,) = (folder / "lists").glob(f"{split}.*")
        assert len([line for line in file.read_text().splitlines() if "val_" in line]) == 1


@pytest.mark.parametrize("task", PAIRS)
def test_a_file_with_two_names(folder: Path, task: str) -> None:
    """It would be in two splits, or say two things."""
    (folder / "copy.mp4").symlink_to("val_0.mp4")
    text, _ = PAIRS[task]
    (folder / "all.csv").write_text(text.format("val_0.mp4", "copy.mp4"))
    (folder / "classes.txt").write_text("run\nsit\n")
    faults, _ = find_annotation_faults(open_annotations(folder / "all.csv", folder), task)
    (fault,) = [fault for fault in faults if "frame rate" not in fault]
    assert fault.endswith("copy.mp4 is the same file as val_0.mp4")
    with pytest.raises(ValueError, match=r"copy.mp4 is the same file as val_0\.mp4"):
        split_annotations(open_annotations(folder / "all.csv"), task, folder / "lists")


CONTRADICTIONS = {
    "classes": (
        "video,label\n{0},run\n{0},sit\n",
        "val_0.mp4 is listed again and has the label 'sit', but .*'run'",
    ),
    "number": ("video,speed\n{0},1\n{0},2\n", "already in .*line 2, with other values"),
    "frames": ("video,start,end,label\n{0},0,1,run\n{0},0,1,sit\n", "starts at 0 s, before 1 s"),
}


@pytest.mark.parametrize("task", CONTRADICTIONS)
def test_rows_that_contradict_each_other(folder: Path, task: str) -> None:
    text, error = CONTRADICTIONS[task]
    (folder / "all.csv").write_text(text.format("val_0.mp4"))
    (fault,) = find_annotation_faults(open_annotations(folder / "all.csv", folder), task)[0]
    assert re.search(f"line 3: .*{error}", fault)
    with pytest.raises(ValueError, match=error):
        split_annotations(open_annotations(folder / "all.csv"), task, folder / "lists")


def test_lists_with_a_label_for_each_video(folder: Path, main_of, capsys) -> None:
    """The default task reads a csv file as it reads folders."""
    (folder / "all.csv").write_text("video,label\nval_0.mp4,sit\nval_1.mp4,run\n")
    lists = split_annotations(
        open_annotations(folder / "all.csv"), "classes", folder, val=0.5, test=0
    )
    assert lists.classes == ("run", "sit") and lists.counts == {"train": 1, "val": 1, "test": 0}
    lines = {(folder / f"{split}.txt").read_text() for split in ("train", "val")}
    assert lines == {"val_0.mp4 1\n", "val_1.mp4 0\n"}
    with pytest.raises(ValueError, match="all.csv: --task must be classes or labels by its col"):
        main_of("data.list")([str(folder / "all.csv")])


def test_splits_are_named_as_folders_are(folder: Path) -> None:
    rows = "val_0.mp4,sit,Training\nval_1.mp4,run,validation\n"
    (folder / "all.csv").write_text(f"video,label,split\n{rows}")
    lists = split_annotations(open_annotations(folder / "all.csv"), "classes", folder / "lists")
    assert lists.counts == {"train": 1, "val": 1, "test": 0}
    (folder / "all.csv").write_text(f"video,label,split\n{rows.replace('validation', 'x')}")
    with pytest.raises(ValueError, match="line 3: split must be train, val or test, got 'x'"):
        split_annotations(open_annotations(folder / "all.csv"), "classes", folder / "other")


def test_activitynet_leaves_other_files_alone(folder: Path) -> None:
    """A csv file of its name, which is the user's."""
    (folder / "anet.csv").write_text("mine")
    span = {"segment": [0, 1], "label": "run"}
    video = {"subset": "training", "annotations": [span]}
    (folder / "anet.json").write_text(json.dumps({"database": {"val_0": video, "gone": video}}))
    split_annotations(open_annotations(folder / "anet.json"), "segments", folder)
    assert (folder / "anet.csv").read_text() == "mine"


def test_a_video_without_a_rate_is_named(folder: Path, monkeypatch) -> None:
    (folder / "all.csv").write_text(f"video,start,end,label\n{ROWS}")
    monkeypatch.setattr("mmvidformer.video.video.Video.get_avg_fps", lambda self: 0.0)
    faults, _ = find_annotation_faults(open_annotations(folder / "all.csv", folder))
    assert faults == [
        f"{folder / name}: its frame rate is unknown" for name in ("val_0.mp4", "val_1.mp4")
    ]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_of_the_same_letters_and_other_bytes_is_pointed_out(tmp_path, form) -> None:
    other = {"NFC": "NFD", "NFD": "NFC"}[form]
    (tmp_path / unicodedata.normalize(form, "caf\u00e9.mp4")).write_bytes(b"")
    named = tmp_path / unicodedata.normalize(other, "caf\u00e9.mp4")
    letters = {"NFC": "'caf\\xe9.mp4'", "NFD": "'cafe\\u0301.mp4'"}[form]
    assert f"has other bytes, {letters}: rename it" in describe_other_form(named)
    assert describe_other_form(tmp_path / "caf\u00ea.mp4") == ""
    assert describe_other_form(tmp_path / "gone" / named.name) == ""

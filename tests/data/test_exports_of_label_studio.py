"""Exports of Label Studio: cut down from a file that it wrote, or in its words."""

import json
from pathlib import Path

import pytest

from mmvidformer.data.importers import open_annotations
from mmvidformer.errors import UserError
from tests.data.exports import (
    BOX,
    MINIMAL,
    RECTANGLE,
    SPAN,
    VIDEO,
    choose,
    read,
    rows_of,
    task_of,
    timeline,
)


def test_rectangles_of_label_studio(folder: Path) -> None:
    """As ``extract_key_frames`` of its SDK 2.1.2 fills them in: at frame 779 x is 2.7207, y is
    23.3333, and the width 60.3190 percent. Frame 1 is the first one, at 0 s."""
    table = read(folder / "a.json", task_of(RECTANGLE), "label-studio")
    rows = rows_of(table, *BOX[:5], task="boxes")
    assert len(rows) == 882 - 769 + 1
    assert rows[0][0] == f"{768 / 24:.3f}" and rows[-1][0] == f"{881 / 24:.3f}"
    assert rows[10] == (f"{778 / 24:.3f}", "0.027", "0.233", "0.630", "0.713")


def test_label_studio_has_a_rate_of_its_own(folder: Path, capsys) -> None:
    """It stands in keyframes, or in the data of our own tasks; else a line says what is assumed."""
    content = [task_of(timeline(1, 6))]
    read(folder / "a.json", content, "label-studio")
    assert "Label Studio counts 24 a second: --fps 24" in capsys.readouterr().err
    table = open_annotations(folder / "a.json", fps=24)
    assert rows_of(table, *SPAN, task="segments") == [("0.000", "0.250", "walk")]
    content[0]["data"]["fps"] = 6
    table = read(folder / "a.json", content, "label-studio")
    assert rows_of(table, *SPAN, task="segments") == [("0.000", "1.000", "walk")]
    assert not capsys.readouterr().err
    with pytest.raises(UserError, match=r"--fps 24: .*a\.json has no frames without a time"):
        open_annotations(folder / "a.json", fps=24)


def test_segments_and_choices_of_label_studio(folder: Path) -> None:
    """Without a rate of its own, frames are those of the video; both ends are part of a segment."""
    note = {"type": "textarea", "from_name": "note", "value": {"text": ["a"]}}
    results = (timeline(1, 6), timeline(7, 7), choose("calm", id="r1"), choose("day"), note)
    table = read(folder / "a.json", [task_of(*results)], "label-studio")
    assert rows_of(table, *SPAN, "mood", task="segments") == [("0.000", "0.500", "walk", "calm")]
    assert rows_of(table, "time", "label", task="moments") == [("0.500", "walk")]
    assert rows_of(table, "label", task="classes") == [("day",)]
    assert table.left_out == {"textarea": 1}
    table = read(folder / "a.json", [task_of(timeline(1, 6), RECTANGLE)], "label-studio")
    assert rows_of(table, *SPAN, task="segments") == [("0.000", "0.250", "walk")]  # 24 a second


def test_one_annotation_of_a_task_of_label_studio(folder: Path) -> None:
    """The latest, but for the ground truth; what an annotator gave up does not count."""
    results = [[timeline(1, end)] for end in (3, 6, 9, 12)]
    dates = [f"2026-01-0{day}" for day in (1, 2, 3, 4)]
    annotations = [
        dict(result=result, updated_at=date) for result, date in zip(results, dates, strict=True)
    ]
    annotations[3]["was_cancelled"] = True
    task = task_of()
    for expected, truth in (("0.750", False), ("0.250", True)):
        annotations[0]["ground_truth"] = truth
        task["annotations"] = annotations
        table = read(folder / "a.json", [task], "label-studio")
        assert rows_of(table, "end", task="segments") == [(expected,)]
        assert table.left_out == {"cancelled annotation": 1, "second annotation": 2}
    empty = {**task, "annotations": []}
    table = read(folder / "a.json", [empty, task], "label-studio")
    assert ("",) in rows_of(table, "label", task="segments")  # a video without segments is read


def test_predictions_of_label_studio_are_called_so(folder: Path, capsys) -> None:
    """They are read from a file of tasks that knows no annotations, as ``demo`` writes it."""
    results = [timeline(1, 3), timeline(4, 6)]
    task = {"data": {"video": VIDEO, "fps": 6}, "predictions": [{"result": results}]}
    table = read(folder / "a.json", [task], "label-studio")
    assert len(rows_of(table, "label", task="segments")) == 2
    said = "a.json: 2 rows of predictions, which nobody corrected\n"
    assert capsys.readouterr().err.endswith(said)
    annotations = [{"result": results, "updated_at": "2026-01-01"}]
    read(folder / "a.json", [{**task, "annotations": annotations}], "label-studio")
    assert not capsys.readouterr().err


def test_an_export_without_annotations_of_a_task_is_named(folder: Path) -> None:
    """As of predictions that found nothing, and were submitted."""
    table = read(folder / "a.json", [{**task_of(), "annotations": []}], "label-studio")
    with pytest.raises(UserError, match=r"a\.json has no segment$"):
        rows_of(table, "label", task="segments")
    table = read(folder / "a.json", [task_of(choose("day"))], "label-studio")
    with pytest.raises(UserError, match=r"a\.json has no box; left out: 1 label$"):
        rows_of(table, "label", task="boxes")


def test_label_studio_without_its_types(folder: Path) -> None:
    table = read(folder / "a.json", [MINIMAL], "label-studio")
    assert rows_of(table, *SPAN, task="segments") == [("0.000", "0.500", "walk")]
    assert rows_of(table, "label", task="classes") == [("calm",)]
    several = {**MINIMAL, "mood": {"choices": ["calm", "wet"]}}
    table = read(folder / "a.json", [several], "label-studio")
    assert rows_of(table, "label", task="labels") == [("calm",), ("wet",)]
    read(folder / "a.json", [{**MINIMAL, "note": "a bird"}], "label-studio")
    table = open_annotations(folder / "a.json", columns={"label": "mood"})
    assert ("calm",) in rows_of(table, "label", task="classes")


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("/data/local-files/?d=my%20birds/u%20v.mp4", "u v.mp4"),
        ("/data/upload/1/u v.mp4", "u v.mp4"),
        ("/data/upload/1/1fd99634-u_v.mp4", "u v.mp4"),
        ("s3://bucket/birds/t.mp4", "t.mp4"),
        ("C:\\birds\\t.mp4", "t.mp4"),
    ],
)
def test_addresses_of_label_studio(address: str, name: str, folder: Path) -> None:
    """An upload has no spaces, as ``get_valid_filename`` of Django spells names."""
    task = {**task_of(timeline(1, 6)), "data": {"title": "a.mp4 of ann", "video": address}}
    ((video,),) = rows_of(read(folder / "a.json", [task], "label-studio"), "video")
    assert Path(video).name == name
    task["data"] = {"image": "a.png"}
    (folder / "a.json").write_text(json.dumps([task]))
    with pytest.raises(ValueError, match=r"a\.json, task 1: it has no video, only \['a.png'"):
        open_annotations(folder / "a.json")

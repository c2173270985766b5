"""Exports of tools and data sets: cut down from files that these wrote, or in their words."""

import json
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from mmvidformer.data.importers import find_format, open_annotations
from mmvidformer.data.tables import Table
from mmvidformer.errors import UserError
from mmvidformer.tasks.imports import guess_task, select_rows
from mmvidformer.tasks.table import find_task

FPS = 12  # of the videos, which have 24 frames of 64 x 32 pixels


@pytest.fixture
def folder(tiny_videos, tmp_path: Path) -> Path:
    """A folder with the videos t.mp4 and "u v.mp4"."""
    for number, name in enumerate(("t.mp4", "u v.mp4")):
        (tmp_path / name).symlink_to(tiny_videos.root / f"val_{number}.mp4")
    return tmp_path


def rows_of(table: Table, *columns: str, task: str = "") -> list[tuple[str, ...]]:
    """Values of columns of the rows that a task takes, numbers with 3 digits."""
    nouns = (find_task(task) if task else guess_task(table)).nouns
    chosen = select_rows(table, nouns)
    return [tuple(shorten(row.get(name, "")) for name in columns) for row, _ in chosen.read()]


def shorten(text: str) -> str:
    try:
        return f"{float(text):.3f}"
    except ValueError:
        return text


def read(file: Path, content: object, tool: str) -> Table:
    """Write a file, and read it as that of a tool."""
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    table = open_annotations(file)
    assert table.importer == tool
    return table


SPAN = ("start", "end", "label")
BOX = ("time", "x1", "y1", "x2", "y2", "label", "track")

# Cut from tests/assets/cvat_dataset/for_video/annotations.xml of Datumaro (MIT), an export of CVAT
# that its tests changed. Every third frame was shown.
CVAT = """<?xml version="1.0" encoding="utf-8"?>
<annotations>
  <version>1.1</version>
  <meta>
    <task>
      <id>5</id>
      <name>v1</name>
      <size>4</size>
      <mode>interpolation</mode>
      <start_frame>10</start_frame>
      <stop_frame>19</stop_frame>
      <frame_filter>step=3</frame_filter>
      <original_size>
        <width>25</width>
        <height>20</height>
      </original_size>
    </task>
    <source>t.mp4</source>
  </meta>
  <track id="0" label="II">
    <box frame="10" outside="0" occluded="1" keyframe="1" xtl="3.00" ytl="4.00" xbr="10.00"
     ybr="5.00" z_order="0">
    </box>
    <box frame="13" outside="1" occluded="0" keyframe="1" xtl="7.00" ytl="6.00" xbr="14.00"
     ybr="8.00" z_order="0">
    </box>
    <box frame="16" outside="1" occluded="0" keyframe="1" xtl="8.00" ytl="7.00" xbr="14.0"
     ybr="17.00" z_order="0">
    </box>
  </track>
  <track id="1" label="klhg">
    <points frame="10" outside="0" keyframe="1" points="21.95,8.00;2.55,15.09" z_order="0">
      <attribute name="hgl">hgkf</attribute>
    </points>
  </track>
  <track id="3" label="skeleton" source="manual">
    <skeleton frame="10" outside="0" keyframe="1" points="48.80,111.77" z_order="0">
    </skeleton>
    <track id="0" label="1" source="manual">
      <points frame="10" outside="0" keyframe="1" points="48.80,111.77" z_order="0">
      </points>
    </track>
  </track>
</annotations>
"""


def test_cvat_takes_tracks_of_boxes(folder: Path) -> None:
    table = read(folder / "a.xml", CVAT, "cvat")
    assert rows_of(table, *SPAN, task="segments") == [("0.833", "1.083", "II")]
    assert rows_of(table, *BOX, task="boxes") == [
        ("0.833", "0.120", "0.200", "0.400", "0.250", "II", "0.000")
    ]
    assert table.left_out == {"points track": 1, "skeleton track": 1}


TRACK = """<annotations><version>1.1</version><meta><task><name>t.mp4</name><size>24</size>
<original_size><width>100</width><height>100</height></original_size></task></meta>
<track id="7" label="bird">{}</track></annotations>"""
KEYFRAME = """<box frame="{}" keyframe="{}" outside="{}" xtl="{}" ytl="20" xbr="{}" ybr="60">
<attribute name="action">{}</attribute></box>"""
KEYFRAMES = ((0, 1, 0, 10, 30, "sit"), (4, 1, 0, 50, 90, "fly"), (6, 1, 1, 50, 90, "fly"))


def write_track(*keyframes: tuple) -> str:
    return TRACK.format("".join(KEYFRAME.format(*keyframe) for keyframe in keyframes))


def test_cvat_moves_boxes_from_keyframe_to_keyframe(folder: Path) -> None:
    """CVAT's ``TrackManager.get_interpolated_shapes``: a straight line; frames that it filled in
    itself, with ``keyframe="0"``, do not count."""
    filled = (2, 0, 0, 77, 99, "sit")
    table = read(folder / "a.xml", write_track(KEYFRAMES[0], filled, *KEYFRAMES[1:]), "cvat")
    rows = rows_of(table, "time", "x1", "x2", "action", task="boxes")
    lefts = [0.1, 0.2, 0.3, 0.4, 0.5, 0.5]
    rights = [0.3, 0.45, 0.6, 0.75, 0.9, 0.9]
    assert rows == [
        (f"{frame / FPS:.3f}", f"{left:.3f}", f"{right:.3f}", "sit" if frame < 4 else "fly")
        for frame, (left, right) in enumerate(zip(lefts, rights, strict=True))
    ]
    by_action = open_annotations(folder / "a.xml", columns={"label": "action"})
    spans = [("0.000", "0.333", "sit"), ("0.333", "0.500", "fly")]
    assert rows_of(by_action, *SPAN, task="segments") == spans


def test_a_track_of_cvat_lasts_until_it_is_outside(folder: Path) -> None:
    """Or until the end; a track of the whole frame is a segment only."""
    table = read(folder / "a.xml", write_track(KEYFRAMES[0], KEYFRAMES[2], KEYFRAMES[1]), "cvat")
    assert rows_of(table, *SPAN, task="segments")[-1] == ("0.333", "0.500", "bird")
    table = read(folder / "a.xml", write_track((6, 1, 0, 0, 0, "")), "cvat")
    assert rows_of(table, *SPAN, task="segments") == [("0.500", "2.000", "bird")]
    whole = write_track((6, 1, 0, 0, 99, "")).replace('ytl="20"', 'ytl="0"').replace("60", "99")
    table = read(folder / "a.xml", whole, "cvat")
    assert guess_task(table).name == "segments" and len(table.rows) == 1


def test_cvat_writes_zip_files(folder: Path) -> None:
    with ZipFile(folder / "a.zip", "w") as file:
        file.writestr("annotations.xml", CVAT)
        file.writestr("images/frame_000010.PNG", b"")
    table = open_annotations(folder / "a.zip")
    assert rows_of(table, *SPAN, task="segments") == [("0.833", "1.083", "II")]
    with ZipFile(folder / "a.zip", "w") as file:
        file.writestr("README", "")
    with pytest.raises(ValueError, match=r"a\.zip must have one file of annotations, it has none"):
        open_annotations(folder / "a.zip")


def test_other_exports_of_cvat_are_named(folder: Path) -> None:
    (folder / "a.xml").write_text(
        '<annotations><version>1.1</version><image id="0"><box/></image></annotations>'
    )
    with pytest.raises(ValueError, match=r"a\.xml is CVAT's export of images; export CVAT for vid"):
        open_annotations(folder / "a.xml")
    (folder / "a.xml").write_text(write_track(("x", 1, 0, 10, 30, "")))
    with pytest.raises(ValueError, match=r"a\.xml, track 7 is damaged: ValueError .*'x'"):
        open_annotations(folder / "a.xml")


# The video and the rectangle of tests/pathtrack/ls-video.json of label-studio-converter (Apache
# 2.0), an export of Label Studio at 24 frames a second; the last keyframe ends the rectangle.
VIDEO = "https://feature-video-export.dev.heartex.com/data/upload/8/1fd99634-t.mp4"
SEQUENCE = [
    dict(frame=769, time=32.041666666666664, x=0.0917, y=22.5, width=56.5333, height=48.0),
    dict(frame=797, time=33.208333333333336, x=7.4528, y=24.8333, width=67.1333, height=48.0),
    dict(frame=882, time=36.75, x=0.0917, y=29.0, width=62.1278, height=48.0),
]
RECTANGLE = {
    "id": "M-XUImr4kg",
    "type": "videorectangle",
    "value": {
        "labels": ["Possum"],
        "sequence": [{**item, "enabled": item["frame"] < 882, "rotation": 0} for item in SEQUENCE],
        "framesCount": 895,
    },
    "origin": "manual",
    "to_name": "video",
    "from_name": "box",
}


def task_of(*results: dict, **annotation: object) -> dict:
    return {
        "id": 28,
        "data": {"video": VIDEO},
        "annotations": [{"id": 7, "result": [*results], "was_cancelled": False, **annotation}],
        "predictions": [],
    }


def test_rectangles_of_label_studio(folder: Path) -> None:
    """As ``extract_key_frames`` of its SDK 2.1.2 fills them in: at frame 779 x is 2.7207, y is
    23.3333, and the width 60.3190 percent. Frame 1 is the first one, at 0 s."""
    table = read(folder / "a.json", task_of(RECTANGLE), "label-studio")
    rows = rows_of(table, *BOX[:5], task="boxes")
    assert len(rows) == 882 - 769 + 1
    assert rows[0][0] == f"{768 / 24:.3f}" and rows[-1][0] == f"{881 / 24:.3f}"
    assert rows[10] == (f"{778 / 24:.3f}", "0.027", "0.233", "0.630", "0.713")


def timeline(start: int, end: int, **further: object) -> dict:
    value = {"ranges": [{"start": start, "end": end}], "timelinelabels": ["walk"]}
    return {"id": f"r{start}", "type": "timelinelabels", "value": value, **further}


def choose(*choices: str, **further: object) -> dict:
    return {"type": "choices", "from_name": "mood", "value": {"choices": [*choices]}, **further}


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


# What ``Converter.convert_to_json_min`` of Label Studio's SDK 2.1.2 returns for such tasks.
MINIMAL = {
    "video": VIDEO,
    "id": 28,
    "segments": [{"ranges": [{"start": 1, "end": 6}], "timelinelabels": ["walk"]}],
    "mood": "calm",
    "annotator": 11,
    "annotation_id": 7,
    "created_at": "2021-11-22T18:30:13.356739Z",
    "updated_at": "2021-11-22T18:30:13.356767Z",
    "lead_time": 269.191,
}


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


# A project as VIA 3 saves it; attribute 1 has options as in VIA's own example of actions.
VIA = {
    "project": {
        "pid": "__VIA_PROJECT_ID__",
        "data_format_version": "3.1.2",
        "vid_list": ["1", "2"],
    },
    "config": {"file": {"loc_prefix": {"1": "", "2": "", "3": "", "4": ""}}},
    "attribute": {
        "1": {"aname": "Action", "type": 4, "options": {"0": "Drum", "1": "Pant Hoot"}},
        "2": {"aname": "sound", "type": 2, "options": {"0": "loud", "1": "low"}},
    },
    "file": {
        "1": {"fid": "1", "fname": "t.mp4", "type": 4, "loc": 1, "src": ""},
        "2": {"fid": 2, "fname": "sub/u v.mp4", "type": 4, "loc": 2, "src": "sub/u v.mp4"},
    },
    "metadata": {
        "1_a": {"vid": "1", "flg": 0, "z": [0.5, 1.25], "xy": [], "av": {"1": "1", "2": "0,1"}},
        "1_b": {"vid": "1", "flg": 0, "z": [0.75], "xy": [], "av": {"1": "0"}},
        "1_c": {"vid": "1", "flg": 0, "z": [1], "xy": [2, 16, 8, 32, 16], "av": {"1": "0"}},
        "1_d": {"vid": "1", "flg": 0, "z": [1], "xy": [1, 16, 8], "av": {"1": "0"}},
        "1_e": {"vid": "1", "flg": 0, "z": [], "xy": [], "av": {"1": "free text"}},
        "1_f": {"vid": "1", "flg": 0, "z": [0, 1], "xy": [], "av": {}},
    },
    "view": {"1": {"fid_list": ["1"]}, "2": {"fid_list": [2]}},
}


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


# Rows of Kinetics' val.csv and of its JSON (CC BY 4.0).
KINETICS = """label,youtube_id,time_start,time_end,split,is_cc
abseiling,-3B32lodo2M,59,69,val,0
"air drumming",_dbcJuKJQNs,40,50,validate,0
"""
KINETICS_JSON = {
    "-3B32lodo2M": {
        "annotations": {"label": "abseiling", "segment": [59.0, 69.0]},
        "duration": 10.0,
        "subset": "validate",
        "url": "https://www.youtube.com/watch?v=-3B32lodo2M",
    },
    "_dbcJuKJQNs": {
        "annotations": {"label": "air drumming", "segment": [40.0, 50.0]},
        "duration": 10.0,
        "subset": "validate",
        "url": "",
    },
}


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


def paths_in(content: object, path: tuple = ()) -> Iterator[tuple]:
    """Where parts of JSON are: keys and numbers from the top."""
    if path:
        yield path
    items = content.items() if isinstance(content, dict) else ()
    for key, part in enumerate(content) if isinstance(content, list) else items:
        yield from paths_in(part, (*path, key))


def damage(content: object, path: tuple, part: object) -> object:
    """Return a copy in which a part is another one."""
    copied = copy = json.loads(json.dumps(content))
    for key in path[:-1]:
        copy = copy[key]
    copy[path[-1]] = part
    return copied


@pytest.mark.parametrize(
    ("part", "value", "error"),
    [
        (("result",), 5, "result must be a list of objects, got 5"),
        (("result", 0, "value", "ranges", 0, "end"), "x", "end must be a number, got x"),
        (("result", 0, "value", "timelinelabels"), [1], "timelinelabels must be a list of texts"),
        (("result", 1, "value", "sequence", 1, "width"), None, "width must be a number, got None"),
        (("result", 1, "value"), [], r"value must be an object, got \[\]"),
    ],
)
def test_a_field_of_another_type_is_named(part, value, error, folder: Path) -> None:
    task = task_of(timeline(1, 6), RECTANGLE)
    (folder / "a.json").write_text(json.dumps(damage(task, ("annotations", 0, *part), value)))
    with pytest.raises(UserError, match=f"a.json, task 1: {error}"):
        open_annotations(folder / "a.json")


@pytest.mark.parametrize(
    "content",
    [[task_of(RECTANGLE, timeline(1, 6), choose("a", id="r1"))], [MINIMAL], VIA, KINETICS_JSON],
    ids=["label-studio", "minimal", "via", "kinetics"],
)
def test_damaged_exports_are_mistakes_of_users(content: object, folder: Path) -> None:
    """Whatever part is of another type: it is named in a line, or not needed."""
    refused = 0
    for path in paths_in(content):
        for part in (None, "x", -1, [], {}):
            (folder / "a.json").write_text(json.dumps(damage(content, path, part)))
            try:
                open_annotations(folder / "a.json")
            except UserError as error:
                assert "\n" not in str(error)
                refused += 1
    assert refused > 10

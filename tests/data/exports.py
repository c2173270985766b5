"""What exports of tools contain, and how tests read them."""

import json
from collections.abc import Iterator
from pathlib import Path

from mmvidformer.data.importers import open_annotations
from mmvidformer.data.tables import Table
from mmvidformer.tasks.imports import guess_task, select_rows
from mmvidformer.tasks.table import find_task

FPS = 12  # of the videos, which have 24 frames of 64 x 32 pixels
SPAN = ("start", "end", "label")
BOX = ("time", "x1", "y1", "x2", "y2", "label", "track")


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


TRACK = """<annotations><version>1.1</version><meta><task><name>t.mp4</name><size>24</size>
<original_size><width>100</width><height>100</height></original_size></task></meta>
<track id="7" label="bird">{}</track></annotations>"""
KEYFRAME = """<box frame="{}" keyframe="{}" outside="{}" xtl="{}" ytl="20" xbr="{}" ybr="60">
<attribute name="action">{}</attribute></box>"""
KEYFRAMES = ((0, 1, 0, 10, 30, "sit"), (4, 1, 0, 50, 90, "fly"), (6, 1, 1, 50, 90, "fly"))


def write_track(*keyframes: tuple) -> str:
    return TRACK.format("".join(KEYFRAME.format(*keyframe) for keyframe in keyframes))


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


def timeline(start: int, end: int, **further: object) -> dict:
    value = {"ranges": [{"start": start, "end": end}], "timelinelabels": ["walk"]}
    return {"id": f"r{start}", "type": "timelinelabels", "value": value, **further}


def choose(*choices: str, **further: object) -> dict:
    return {"type": "choices", "from_name": "mood", "value": {"choices": [*choices]}, **further}


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

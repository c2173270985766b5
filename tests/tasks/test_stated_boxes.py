"""Boxes that a file states, in place of a detector: csv, and exports of tools."""

import json
from pathlib import Path

import pytest

from mmvidformer.data.folders import NamedVideos
from mmvidformer.data.importers import open_annotations
from mmvidformer.errors import UserError
from mmvidformer.tasks.stated_boxes import StatedBoxes, VideoBoxes

BOX = (0.1, 0.2, 0.9, 0.8)
CVAT = """<annotations><version>1.1</version><meta><task><size>24</size><source>cam1.mp4</source>
<original_size><width>100</width><height>50</height></original_size></task></meta>
<track id="7" label="person"><box frame="0" xtl="10" ytl="10" xbr="90" ybr="40" outside="0"/>
<box frame="1" xtl="10" ytl="10" xbr="90" ybr="40" outside="1"/></track></annotations>"""
COCO = {
    "videos": [{"id": 3, "name": "there/cam1"}, {"id": 4, "name": "gone"}],
    "categories": [{"id": 2, "name": "person"}],
    "images": [
        {"id": 5, "video_id": 3, "frame_id": 0, "width": 100, "height": 50},
        {"id": 6, "video_id": 4, "frame_id": 0, "width": 100, "height": 50},
    ],
    "annotations": [
        {"id": n, "image_id": n, "category_id": 2, "bbox": [10, 10, 80, 30], "track_id": 7}
        for n in (5, 6)
    ],
}
VIA = {
    "project": {},
    "metadata": {
        "a": {"vid": "1", "z": [0], "xy": [2, 6.4, 6.4, 51.2, 19.2], "av": {"1": "person"}}
    },
    "attribute": {"1": {"aname": "what"}},
    "file": {"1": {"fid": "1", "fname": "cam1.mp4"}},
    "view": {"1": {"fid_list": ["1"]}},
}
FILES = {
    "csv": "cam1,0,0.1,0.2,0.9,0.8,1,7\nother,0,0,0,1,1,1,3\n",
    "path": "video,time,x1,y1,x2,y2,label,track\nsomewhere\\cam1.mp4,0,.1,.2,.9,.8,person,7\n",
    "no classes": "video,time,x1,y1,x2,y2\ncam1.mp4,0,.1,.2,.9,.8\n",
    "bare": "cam1,0,0.1,0.2,0.9,0.8\n",
    "cvat": CVAT,
    "coco": json.dumps(COCO),
    "via": json.dumps(VIA),
}


def read(file: Path, videos: list[str]) -> VideoBoxes:
    named = NamedVideos(videos=videos)
    return VideoBoxes(open_annotations(file, named), named)


@pytest.mark.parametrize("tool", FILES)
def test_files_of_boxes(tool: str, tiny_videos, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    video = tmp_path / "x" / "cam1.mp4"
    video.symlink_to(tiny_videos.root / "val_0.mp4")
    file = tmp_path / "boxes"
    file.write_text(FILES[tool])
    boxes = read(file, [str(video), "y/cam2.mp4"])
    has_tracks = tool not in ("no classes", "bare", "via")
    assert boxes.of(video) == [StatedBoxes(0, [BOX], [7 if has_tracks else None])]
    assert boxes.has_tracks == has_tracks
    assert boxes.of("y/cam2.mp4") == []


def test_boxes_of_two_videos_of_one_name_are_refused(tmp_path: Path) -> None:
    rows = tmp_path / "boxes.csv"
    rows.write_text("cam1,1,0.1,0.2,0.9,0.8,1,0\ncam1,2,0.1,0.2,0.9,0.8,1,0\n")
    with pytest.raises(UserError, match=r"two files have the name 'cam1': x/cam1.mp4 and y/cam1.a"):
        read(rows, ["x/cam1.mp4", "y/cam1.avi"])
    boxes = read(rows, ["x/cam1.mp4", "x/cam1.mp4", "x/cam2.mp4", "y/cam2.mp4"])
    expected = [StatedBoxes(time, [BOX], [0]) for time in (1, 2)]
    assert boxes.of("x/cam1.mp4") == expected and boxes.of("x/cam2.mp4") == []


def test_segments_are_no_boxes(tmp_path: Path) -> None:
    segment = {"segment": [0, 1], "label": "run"}
    (tmp_path / "anet.json").write_text(json.dumps({"cam1": {"annotations": [segment]}}))
    with pytest.raises(UserError, match="has no box; left out: 1 segment"):
        read(tmp_path / "anet.json", ["x/cam1.mp4"])
    with pytest.raises(UserError, match="none of the 1 videos of .* is among these videos"):
        read(tmp_path / "anet.json", ["x/cam2.mp4"])

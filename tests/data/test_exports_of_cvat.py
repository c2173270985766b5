"""Exports of CVAT: cut down from a file that it wrote, or in its words."""

from pathlib import Path
from zipfile import ZipFile

import pytest

from mmvidformer.data.importers import open_annotations
from mmvidformer.tasks.imports import guess_task
from tests.data.exports import BOX, FPS, KEYFRAMES, SPAN, read, rows_of, write_track

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

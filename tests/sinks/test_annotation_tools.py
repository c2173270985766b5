"""Outputs for annotation tools: there and back, and as the tools' own code reads them."""

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from mmvidformer.apis import Prediction
from mmvidformer.data.importers import open_annotations
from mmvidformer.data.sources import Source, list_sources
from mmvidformer.errors import UserError
from mmvidformer.sinks import SINKS
from mmvidformer.sinks.base import Begun, SinkOptions
from mmvidformer.storage.targets import check_distinct
from mmvidformer.tasks.imports import select_rows
from mmvidformer.tasks.table import TASKS

NAMES = {"class": ["left", "<b>& right", "Füttern"]}
FPS = 12  # of the videos


@pytest.fixture
def videos(tiny_videos, tmp_path) -> Path:
    """Two videos of 24 frames, with a name that needs quotes."""
    folder = tmp_path / "videos"
    folder.mkdir()
    for number, name in enumerate(("a & b.mp4", "sub/c.mp4")):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(tiny_videos.root / f"val_{number}.mp4")
    return folder


def predict(video: Path, label: int, task: str = "classes", **where: object) -> Prediction:
    shares = np.full(3, 0.1)
    shares[label] = 0.8
    scores = {"class": shares}
    return Prediction(scores, scores, NAMES, str(video), task=TASKS[task], **where)


def segments(videos: Path) -> list[Prediction]:
    """Segments, a moment and another video."""
    first, second = videos / "a & b.mp4", videos / "sub" / "c.mp4"
    return [
        predict(first, 0, "segments", seconds=(0.0, 0.5)),
        predict(first, 1, "segments", seconds=(0.5, 2.0)),
        predict(first, 2, "segments", seconds=(0.5, 0.75)),
        predict(second, 2, "segments", seconds=(0.25, 1.0)),
    ]


def boxes(videos: Path) -> list[Prediction]:
    video = videos / "a & b.mp4"
    corners = ((0.1, 0.25, 0.5, 0.75), (0.5, 0.25, 1.0, 1.0), (0.0, 0.0, 0.25, 0.5))
    places = ((0.25, corners[0], 0), (0.25, corners[1], 1), (1.75, corners[2], 2))
    return [
        predict(video, label, "boxes", seconds=(time, time), box=box) for time, box, label in places
    ]


def write(name: str, target: Path, predictions: list[Prediction]) -> None:
    names = {prediction.source for prediction in predictions}
    sources = [source for source in list_sources([str(target.parent)]) if source.name in names]
    with SINKS[name].load()(target, SinkOptions(dict(model="model"))) as sink:
        for source in sources:
            sink.begin(Begun(source))
            for prediction in predictions:
                if prediction.source == source.name:
                    sink.append(prediction)
            sink.end()


def read(file: Path, videos: Path, task: str, *columns: str) -> list[tuple[str, ...]]:
    """Read a file as training does: names of videos and some columns."""
    table = select_rows(open_annotations(file, videos), TASKS[task].nouns)
    rows = [row for row, _ in table.read("video")]
    return [(Path(row["video"]).name, *(row[name] for name in columns)) for row in rows]


def cells_of(prediction: Prediction, *columns: str) -> tuple[str, ...]:
    row = prediction.row()
    return (Path(row["video"]).name, *(f"{row[name]}" for name in columns))


SPAN = ("start", "end", "label")


def test_segments_come_back_from_label_studio(videos) -> None:
    predictions = segments(videos)
    write("label_studio", videos / "out.json", predictions)
    assert read(videos / "out.json", videos, "segments", *SPAN) == [
        cells_of(prediction, *SPAN) for prediction in predictions
    ]
    first, second = json.loads((videos / "out.json").read_text())
    assert first["data"] == {"video": "/data/local-files/?d=a%20%26%20b.mp4", "fps": FPS}
    assert second["data"]["video"].endswith("?d=sub/c.mp4")
    assert first["predictions"][0]["model_version"] == "model"
    assert first["predictions"][0]["score"] == pytest.approx(0.8)


def test_segments_come_back_from_cvat(videos) -> None:
    """A file for each video; a track that lasts until the end has no keyframe behind it."""
    predictions = segments(videos)
    write("cvat", videos / "out", predictions)
    rows = read(videos / "out" / "a & b.xml", videos, "segments", *SPAN)
    assert rows == [cells_of(prediction, *SPAN) for prediction in predictions[:3]]
    root = ElementTree.parse(videos / "out" / "a & b.xml").getroot()
    frames = [[int(box.get("frame")) for box in track] for track in root.iterfind("track")]
    assert frames == [[0, 6], [6], [6, 9]]


PLACE = ("x1", "y1", "x2", "y2", "label")


@pytest.mark.parametrize(
    ("name", "file"), [("label_studio", "out.json"), ("cvat", "out.xml"), ("coco", "out.json")]
)
def test_boxes_come_back(name, file, videos) -> None:
    predictions = boxes(videos)
    write(name, videos / file, predictions)
    rows = read(videos / file, videos, "boxes", "time", *PLACE)
    expected = [cells_of(prediction, "start", *PLACE) for prediction in predictions]
    assert [(*map(number, row[1:6]), row[6]) for row in rows] == [
        (*map(number, row[1:6]), row[6]) for row in expected
    ]


def test_tracks_are_filled_in_between_their_boxes(videos) -> None:
    """A track of the tools has one class: another class is another track."""
    video = videos / "a & b.mp4"
    steps = ((0.25, 0.0, 0), (0.5, 0.3, 0), (0.75, 0.3, 2))
    predictions = [
        predict(video, label, "boxes", seconds=(time, time), box=(x, 0.25, x + 0.5, 0.75), track=4)
        for time, x, label in steps
    ]
    expected = [(0.25, 0.0, "left"), (1 / 3, 0.1, "left"), (5 / 12, 0.2, "left")]
    expected += [(0.5, 0.3, "left"), (0.75, 0.3, "Füttern")]
    for name, file in (("label_studio", "out.json"), ("cvat", "out.xml")):
        write(name, videos / file, predictions)
        rows = read(videos / file, videos, "boxes", "time", "x1", "label")
        found = [(float(time), float(x), label) for _, time, x, label in rows]
        for row, (time, x, label) in zip(found, expected, strict=True):
            assert row == (pytest.approx(time, abs=1e-6), pytest.approx(x, abs=1e-3), label)


def number(text: str) -> float:
    return pytest.approx(float(text), abs=1e-3)


def test_labels_come_back_from_label_studio(videos) -> None:
    """The interface has all classes, which somebody may choose instead."""
    predictions = [predict(videos / "a & b.mp4", 1), predict(videos / "sub" / "c.mp4", 0)]
    write("label_studio", videos / "out.json", predictions)
    rows = read(videos / "out.json", videos, "classes", "label")
    assert rows == [("a & b.mp4", "<b>& right"), ("c.mp4", "left")]
    view = ElementTree.parse(videos / "out.interface.xml").getroot()
    assert [choice.get("value") for choice in view.iter("Choice")] == NAMES["class"]


def test_coco_counts_frames_and_boxes(videos) -> None:
    write("coco", videos / "out.json", boxes(videos))
    content = json.loads((videos / "out.json").read_text())
    assert [image["frame_id"] for image in content["images"]] == [3, 21]
    assert [row["name"] for row in content["categories"]] == NAMES["class"]
    height, width = content["images"][0]["height"], content["images"][0]["width"]
    first = content["annotations"][0]
    assert first["image_id"] == 1 and first["category_id"] == 1 and first["score"] == 0.8
    expected = [0.1 * width, 0.25 * height, 0.4 * width, 0.5 * height]
    assert first["bbox"] == pytest.approx(expected, abs=0.011)
    with pytest.raises(ValueError, match="Coco has no place for labels of whole videos"):
        write("coco", videos / "labels.json", [predict(videos / "a & b.mp4", 1)])


@pytest.mark.parametrize(
    ("name", "file", "sources", "error"),
    [
        ("label_studio", "o.json", ["0"], "o.json: annotations are of video files, got 0"),
        ("cvat", "o.xml", ["a.mp4", "b.mp4"], "o.xml is of one video, got 2 sources; name a fol"),
        (
            "elan",
            "o",
            ["d/a.mp4", "d/a.avi"],
            "d/a.mp4 and d/a.avi would both be written to .*o/a.eaf",
        ),
        ("cvat", "o.json", ["a.mp4"], "o.json must be a .xml file, or a folder"),
    ],
)
def test_mistakes_are_told_before_a_run(name, file, sources, error, tmp_path) -> None:
    given = [Source(source, None if source == "0" else Path(source).parent) for source in sources]
    with pytest.raises(UserError, match=error):
        check_distinct(SINKS[name].load().targets(tmp_path / file, given))


def test_outputs_of_classes_get_no_values() -> None:
    for name in ("label_studio", "cvat", "elan", "boris"):
        with pytest.raises(UserError, match="has no place for values, only for classes"):
            SINKS[name].load().check_task(TASKS["number"])
    with pytest.raises(UserError, match="Coco is of boxes, not of windows"):
        SINKS["coco"].load().check_task(TASKS["classes"])
    for name in ("elan", "boris"):
        with pytest.raises(UserError, match="is of windows, steps, segments, moments, not of box"):
            SINKS[name].load().check_task(TASKS["boxes"])


def test_a_video_without_answers_has_its_place(videos) -> None:
    """Somebody may find what the model did not."""
    for name, file in (("label_studio", "o.json"), ("cvat", "o")):
        with SINKS[name].load()(videos / file, SinkOptions()) as sink:
            for source in list_sources([str(videos)]):
                sink.begin(Begun(source))
                sink.end()
    tasks = json.loads((videos / "o.json").read_text())
    assert [task["predictions"][0]["result"] for task in tasks] == [[], []]
    table = open_annotations(videos / "o.json")
    assert [Path(row["video"]).name for row, _ in table.read("video")] == ["a & b.mp4", "c.mp4"]
    assert (videos / "o" / "a & b.xml").is_file() and (videos / "o" / "sub" / "c.xml").is_file()


FILES = [("label_studio", "o.json"), ("cvat", "o"), ("boris", "o.boris"), ("elan", "o")]


@pytest.mark.parametrize(("name", "file"), FILES)
def test_a_video_that_ends_in_a_fault_keeps_its_part(name, file, videos) -> None:
    """The next video has its own."""
    first, _, _, last = segments(videos)
    with SINKS[name].load()(videos / file, SinkOptions()) as sink:
        for source, prediction in zip(list_sources([str(videos)]), (first, last), strict=True):
            sink.begin(Begun(source))
            sink.append(prediction)
            if prediction is first:
                sink.fail(source.name, "it is damaged")
            else:
                sink.end()
    rows = read(videos / file, videos, "segments", *SPAN)
    assert rows == [cells_of(first, *SPAN), cells_of(last, *SPAN)]


@pytest.mark.parametrize(("name", "file"), [*FILES, ("coco", "o.json")])
def test_names_that_are_not_utf8_are_spelled(name, file, videos) -> None:
    video, target = videos / os.fsdecode(b"caf\xe9.mp4"), videos / file
    (videos / "a & b.mp4").rename(video)
    where = dict(task="boxes", box=(0.0, 0.0, 1.0, 1.0)) if name == "coco" else {"task": "segments"}
    write(name, target, [predict(video, 0, seconds=(0.5, 0.5), **where)])
    text = next(path for path in (target, *target.glob("*")) if path.is_file()).read_text("utf-8")
    assert r"caf\xe9" in text.replace("\\\\", "\\") or "caf%E9.mp4" in text


def behaviors(videos: Path, task: str) -> list[Prediction]:
    """Segments of which two of a class overlap, or moments, of two videos."""
    first, second = videos / "a & b.mp4", videos / "sub" / "c.mp4"
    if task == "moments":
        places = ((first, 0, 0.25), (first, 0, 0.5), (second, 2, 1.5))
        return [predict(video, label, task, seconds=(at, at)) for video, label, at in places]
    return [
        *segments(videos)[:3],
        predict(first, 2, task, seconds=(0.625, 1.0)),
        predict(second, 2, task, seconds=(0.25, 1.0)),
        predict(second, 2, task, seconds=(1.0, 1.5)),
    ]


MERGED = [
    ("a & b.mp4", "0.0", "0.5", "left"),
    ("a & b.mp4", "0.5", "1.0", "Füttern"),
    ("a & b.mp4", "0.5", "2.0", "<b>& right"),
]
SECOND = [("c.mp4", "0.25", "1.0", "Füttern"), ("c.mp4", "1.0", "1.5", "Füttern")]


def test_a_project_of_boris_comes_back(videos) -> None:
    """States of one behavior cannot overlap, as each event of it ends the one before."""
    write("boris", videos / "out.boris", behaviors(videos, "segments"))
    assert sorted(read(videos / "out.boris", videos, "segments", *SPAN)) == MERGED + SECOND
    project = json.loads((videos / "out.boris").read_text())
    assert [*project["observations"]] == ["1 a & b", "2 c"]
    assert project["observations"]["2 c"]["file"] == {"1": ["sub/c.mp4"]}
    write("boris", videos / "moments.boris", behaviors(videos, "moments"))
    rows = read(videos / "moments.boris", videos, "moments", "time", "label")
    assert rows == [("a & b.mp4", "0.25", "left"), ("a & b.mp4", "0.5", "left"),
                    ("c.mp4", "1.5", "Füttern")]  # fmt: skip


def test_files_of_elan_come_back(videos) -> None:
    """A tier for each class. pympi 1.70 reads the same tiers and times."""
    write("elan", videos / "elan", behaviors(videos, "segments"))
    rows = read(videos / "elan" / "a & b.eaf", videos, "segments", *SPAN)
    assert sorted(rows) == MERGED
    assert read(videos / "elan" / "sub" / "c.eaf", videos, "segments", *SPAN) == SECOND
    root = ElementTree.parse(videos / "elan" / "sub" / "c.eaf").getroot()
    assert [tier.get("TIER_ID") for tier in root.iter("TIER")] == NAMES["class"]
    (media,) = root.iter("MEDIA_DESCRIPTOR")
    assert media.get("RELATIVE_MEDIA_URL") == "./../../sub/c.mp4"
    write("elan", videos / "m.eaf", behaviors(videos, "moments")[:2])
    rows = read(videos / "m.eaf", videos, "segments", *SPAN)
    assert rows[0] == ("a & b.mp4", "0.25", "0.333", "left")  # a frame of 12 per second

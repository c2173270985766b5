"""Boxes at moments, in AVA's format."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.structures import InstanceData

from mmvidformer.data.importers import open_annotations
from mmvidformer.data.tables import read_table
from mmvidformer.tasks.boxes import Box, parse_boxes, read_boxes
from mmvidformer.tasks.checks import find_annotation_faults
from mmvidformer.tasks.datasets import BoxDataset
from mmvidformer.tasks.lists import read_task_lists, split_annotations
from mmvidformer.tasks.metrics import BoxesMetric
from mmvidformer.tasks.transforms import FramesAround

CLASSES = ("walk", "sit", "run")
ROWS = "val_0,1,0.1,0.2,0.5,0.6,1,0\nval_0,1,0.1,0.2,0.5,0.6,3,0\nval_0,2,0,0,1,1,2,4\n"


def write_names(folder: Path) -> Path:
    """Write the names of the classes as ``AVAMetric`` reads them."""
    file = folder / "names.pbtxt"
    items = (f'item {{\n  name: "{name}"\n  id: {i}\n}}\n' for i, name in enumerate(CLASSES, 1))
    file.write_text("".join(items))
    return file


def test_boxes_of_moments(tiny_videos, tmp_path) -> None:
    file = tmp_path / "train.csv"
    file.write_text(ROWS)
    options = dict(data_prefix=dict(video=str(tiny_videos.root)), metainfo=dict(classes=[*"abc"]))
    dataset = BoxDataset(str(file), [], **options)
    one, two = (dataset.get_data_info(i) for i in range(2))
    assert (one["video_id"], one["timestamp"], two["timestamp"]) == ("val_0", 1, 2)
    assert one["filename"] == str(tiny_videos.root / "val_0.mp4")
    np.testing.assert_allclose(one["gt_bboxes"], [[0.1, 0.2, 0.5, 0.6]])
    assert one["gt_labels"].tolist() == [[1, 0, 1]] and two["gt_labels"].tolist() == [[0, 1, 0]]
    file.write_text(ROWS.replace("val_0", "gone"))
    with pytest.raises(FileNotFoundError, match="there is no file of video 'gone'"):
        BoxDataset(str(file), [], **options)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("v,1,0.5,0.2,0.1,0.6,1", "line 2: box must be x1 < x2 and y1 < y2 in 0 to 1"),
        ("v,1,0.1,0.2,1.1,0.6,1", "line 2: box must be x1 < x2 and y1 < y2 in 0 to 1"),
        ("v,1,0.1,0.2,0.5,0.6,4", "line 2: label must be a class or in 1 to 3, got 4"),
        ("v,1,0.1,0.2,0.5,0.6,0", "line 2: label must be a class or in 1 to 3, got 0"),
        ("v,1,x,0.2,0.5,0.6,1", "line 2: x1 must be a number, got 'x'"),
        ("v,-1,0.1,0.2,0.5,0.6,1", "line 2: time must be at least 0, got -1"),
        ("v,soon,0.1,0.2,0.5,0.6,1", "line 2: time must be a number, got 'soon'"),
        ("v,1.5,0.1,0.2,0.5,0.6,hop", "line 2: 'hop' is no class; they are walk, sit, run"),
        ("v,1.5,0.1,0.2,0.5,0.6,", "line 2: label is empty"),
        ("v,1,0.1,0.2", "line 2: x2 must be a number, got ''"),
    ],
)
def test_wrong_boxes(tmp_path, row: str, error: str) -> None:
    file = tmp_path / "train.csv"
    file.write_text(f"v,0,0.1,0.2,0.5,0.6,1,0\n{row}\n")
    with pytest.raises(ValueError, match=error):
        read_boxes(file, CLASSES)
    (tmp_path / "classes.txt").write_text("walk\nsit\nrun\n")
    faults = find_annotation_faults(open_annotations(file, tmp_path))[0]
    (found,) = [fault for fault in faults if "does not exist" not in fault]
    assert re.search(error, found) and len(faults) == 2  # and the video is missing


HEADER = "video,time,x1,y1,x2,y2,label,track\n"


@pytest.mark.parametrize(
    "text",
    [
        HEADER + ROWS,
        ROWS.replace("\n", "\n\n", 1),
        f"{ROWS}\n,,,,,,,\n",
        ROWS.replace("val_0,", "val_0 , "),
        ROWS + ROWS[:28],
        "label,video,x1,y1,x2,y2,time,note\n1,val_0,.1,.2,.5,.6,1,\n3,val_0,.1,.2,.5,.6,1,x\n"
        "2,val_0,0,0,1,1,2,\n",
        "video,time,x1,y1,x2,y2,label,track\nval_0,00:01.0,.1,.2,.5,.6,walk,0\n"
        "val_0,1,.1,.2,.5,.6,run,0\nval_0,2,0,0,1,1,sit,4\n",
    ],
    ids=["header", "empty line", "empty rows", "spaces", "a row twice", "other columns", "names"],
)
def test_spellings_of_the_same_boxes(tiny_videos, tmp_path, text: str) -> None:
    """Training and the metric, which MMAction2 computes from a file of its own, read them alike."""
    results = []
    for number, content in enumerate((ROWS, text)):
        file = tmp_path / f"{number}.csv"
        file.write_text(content)
        options = dict(data_prefix=dict(video=str(tiny_videos.root)))
        dataset = BoxDataset(str(file), [], **options, metainfo=dict(classes=CLASSES))
        infos = [dataset.get_data_info(i) for i in range(len(dataset))]
        results.append([(info["timestamp"], info["gt_labels"].tolist()) for info in infos])
        results.append(read_boxes(file, CLASSES))
        metric = BoxesMetric(str(file), None, str(write_names(tmp_path)), num_classes=4)
        boxes = torch.tensor([[0.1, 0.2, 0.5, 0.6], [0.0, 0.0, 0.2, 0.2]])
        scores = torch.tensor([[0.0, 0.9, 0.2, 0.3], [0.0, 0.4, 0.8, 0.7]])
        for second in (1, 2):
            found = InstanceData(bboxes=boxes, scores=scores)
            metric.process(None, [dict(video_id="val_0", timestamp=second, pred_instances=found)])
        results.append(metric.evaluate(2)["mAP/overall"])
    assert results[:3] == results[3:]


def test_check_and_training_find_the_same_files(tiny_videos, tmp_path) -> None:
    """By the name of the file with or without its suffix, or by its path."""
    (tmp_path / "sub").symlink_to(tiny_videos.root)
    file = tmp_path / "all.csv"
    file.write_text(
        "".join(f"{name},1,0,0,1,1,1\n" for name in ("val_0.mp4", "val_1", "sub/val_2.mp4"))
    )
    assert find_annotation_faults(open_annotations(file, tmp_path))[0] == []
    dataset = BoxDataset(
        str(file), [], data_prefix=dict(video=str(tmp_path)), metainfo=dict(classes=["a"])
    )
    names = [Path(dataset.get_data_info(i)["filename"]).name for i in range(3)]
    assert names == ["val_0.mp4", "val_1.mp4", "val_2.mp4"]


def test_lists_elsewhere_name_whole_paths(tiny_videos, tmp_path) -> None:
    """Else nobody would find the videos; a comma is no end of a name for the metric."""
    folder = tmp_path / "a, b"
    folder.mkdir()
    (folder / "val_0.mp4").symlink_to(tiny_videos.root / "val_0.mp4")
    (folder / "all.csv").write_text("val_0,1,0,0,1,1,1\n")
    (folder / "classes.txt").write_text("walk\n")
    lists = split_annotations(open_annotations(folder / "all.csv"), "boxes", tmp_path / "lists")
    file = lists.root / "train.csv"
    options = dict(data_prefix=dict(video=str(lists.root)), metainfo=dict(classes=["walk"]))
    dataset = BoxDataset(str(file), [], **options)
    info = dataset.get_data_info(0)
    assert info["filename"] == info["video_id"] == str(folder / "val_0.mp4")
    (tmp_path / "names.pbtxt").write_text('item {\n  name: "walk"\n  id: 1\n}\n')
    metric = BoxesMetric(str(file), None, str(tmp_path / "names.pbtxt"), num_classes=2)
    found = InstanceData(bboxes=torch.tensor([[0.0, 0, 1, 1]]), scores=torch.tensor([[0, 0.9]]))
    sample = dict(video_id=info["video_id"], timestamp=1, pred_instances=found)
    metric.process(None, [sample])
    assert metric.evaluate(1) == {"mAP/overall": 1.0}
    split_annotations(open_annotations(folder / "all.csv"), "boxes", folder)
    assert (folder / "train.csv").read_text().startswith("val_0,1,")


def test_moments_are_in_their_video(tiny_videos, tmp_path) -> None:
    (tmp_path / "all.csv").write_text("val_0,1,0.1,0.2,0.5,0.6,1\nval_0,9,0.1,0.2,0.5,0.6,1\n")
    faults, videos = find_annotation_faults(
        open_annotations(tmp_path / "all.csv", tiny_videos.root)
    )
    path = tiny_videos.root / "val_0.mp4"
    assert faults == [f"{tmp_path}/all.csv, line 2: 9 s is after the end of {path}, at 2.00 s"]
    assert videos == {"val_0": path}


def test_a_metric_needs_predictions(tmp_path) -> None:
    file = tmp_path / "truth.csv"
    file.write_text(ROWS)
    metric = BoxesMetric(str(file), None, str(write_names(tmp_path)), num_classes=4)
    boxes = InstanceData(bboxes=torch.zeros(1, 4), scores=torch.ones(1, 4))
    metric.process(None, [dict(video_id="other", timestamp=1, pred_instances=boxes)])
    with pytest.raises(ValueError, match="truth.csv: none of its 2 moments has a prediction"):
        metric.evaluate(1)


def test_files_of_boxes_are_split_by_video(tmp_path) -> None:
    rows = [f"v{i},{second},0.1,0.2,0.5,0.6,1,0\n" for i in range(10) for second in (1, 2)]
    (tmp_path / "all.csv").write_text("".join(rows))
    (tmp_path / "classes.txt").write_text("walk\nsit\n")
    lists = split_annotations(
        open_annotations(tmp_path / "all.csv"), "boxes", tmp_path / "out", 0.2, 0.1, check=False
    )
    assert lists.classes == ("walk", "sit")
    assert lists.counts == {"train": 14, "val": 4, "test": 2}  # moments
    assert read_task_lists(tmp_path / "out", "boxes") == lists


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (dict(), [18, 19, 20, 21]),
        (dict(frame_interval=4), [12, 16, 20, 23]),
        (dict(frame_interval=1, target_fps=5), [12, 16, 20, 23]),
    ],
)
def test_frames_around_a_moment(options, expected) -> None:
    """Second 1 of a video of 24 frames at 20 per second."""
    info = dict(total_frames=24, avg_fps=20.0, timestamp=1, start_index=0)
    assert FramesAround(4, **options)(info)["frame_inds"].tolist() == expected


def test_boxes_at_any_time_by_the_names_of_their_classes(tiny_videos, tmp_path) -> None:
    """Lists have numbers as AVA's; classes are those of the file, or of ``classes.txt``."""
    for number in range(3):
        (tmp_path / f"val_{number}.mp4").symlink_to(tiny_videos.root / f"val_{number}.mp4")
    rows = (
        "val_0,0.04,0.1,0.2,0.5,0.6,sit,ann",
        "val_0,0.08,0.1,0.2,0.5,0.6,sit,ann",
        "val_0,0.08,0.1,0.2,0.5,0.6,run,ann",
        "val_1,1.25,0,0,1,1,run,",
        "val_2,1,0,0,1,1,run,bo",
    )
    (tmp_path / "all.csv").write_text("\n".join(("video,time,x1,y1,x2,y2,label,track", *rows)))
    lists = split_annotations(
        open_annotations(tmp_path / "all.csv"), "boxes", tmp_path / "out", 0, 0
    )
    assert lists.classes == ("run", "sit") and lists.counts["train"] == 4
    text = (tmp_path / "out" / "train.csv").read_text()
    assert "0.08,0.1,0.2,0.5,0.6,1,ann" in text and "val_2.mp4,1,0.0,0.0,1.0,1.0,1,bo" in text
    (tmp_path / "classes.txt").write_text("sit\nhop\nrun\n")
    lists = split_annotations(
        open_annotations(tmp_path / "all.csv"), "boxes", tmp_path / "out", 0, 0, force=True
    )
    assert lists.classes == ("sit", "hop", "run")
    assert "0.08,0.1,0.2,0.5,0.6,3,ann" in (tmp_path / "out" / "train.csv").read_text()


def test_the_metric_tells_parts_of_a_second_apart(tmp_path) -> None:
    """What is right at 0.04 s is wrong at 0.08 s; MMAction2 knows whole seconds only."""
    file = tmp_path / "truth.csv"
    file.write_text(HEADER + "v,0.04,0.1,0.2,0.5,0.6,walk,\nv,0.08,0.6,0.6,0.9,0.9,walk,\n")
    metric = BoxesMetric(str(file), None, str(write_names(tmp_path)), num_classes=4)
    scores = torch.tensor([[0, 0.9, 0, 0]])
    corners = torch.tensor([[0.1, 0.2, 0.5, 0.6], [0.6, 0.6, 0.9, 0.9]])
    for times, expected in (((0.04, 0.08), 1), ((0.08, 0.04), 0)):
        for time, box in zip(times, corners, strict=True):
            instances = InstanceData(bboxes=box[None], scores=scores)
            metric.process(None, [dict(video_id="v", timestamp=time, pred_instances=instances)])
        assert metric.evaluate(2)["mAP/overall"] == expected
    metric.exclude_file = "excluded.csv"
    metric.process(None, [dict(video_id="v", timestamp=0.04, pred_instances=instances)])
    with pytest.raises(ValueError, match="truth.csv has parts of seconds"):
        metric.evaluate(1)


def test_columns_as_ava_calls_them(tmp_path: Path) -> None:
    rows = "a.mp4,1,.1,.1,.5,.9,1,7\n"
    read = []
    for header in ("video,second,x1,y1,x2,y2,class,person", "video,time,x1,y1,x2,y2,label,track"):
        file = tmp_path / f"{len(read)}.csv"
        file.write_text(f"{header}\n{rows}")
        (box,) = parse_boxes(read_table(file)).videos["a.mp4"]
        read.append(box._replace(where=""))
    assert read[0] == read[1] == Box(1.0, (0.1, 0.1, 0.5, 0.9), 1, "7", "")

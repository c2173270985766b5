"""Generated clips for answers other than one class."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from lab.synthetic import PRESETS
from mmvidformer.data.tables import read_table
from mmvidformer.tasks.annotations import read_spans
from mmvidformer.tasks.lists import read_task_lists
from mmvidformer.tasks.regression import parse_values

SMALL = dict(train=2, val=2, test=2)


def shift(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Movement (x, y) from one frame to another on the torus, in pixels."""
    grays = [frame.astype(np.float32).mean(axis=-1) for frame in (one, two)]
    return np.array(cv2.phaseCorrelate(*grays)[0])


def test_speed_is_what_the_object_moves() -> None:
    spec = replace(PRESETS["speed"], **SMALL)
    for clip in spec.clips("train"):
        frames, speed = spec.draw(clip), spec.speed(clip)[0]
        moved = [np.hypot(*shift(frames[i], frames[i + 1])) for i in range(len(frames) - 1)]
        assert np.median(moved) == pytest.approx(speed, abs=0.1)


def test_motions_and_pauses_are_where_the_spans_say() -> None:
    spec = replace(PRESETS["scripts"], **SMALL)
    clip = spec.clips("train")[0]
    frames, (rows, total, _) = spec.draw(clip), spec.script(clip)
    assert len(frames) == total
    moving = np.zeros(total, bool)
    for direction, start, end in rows:
        moving[start:end] = True
        x, y = shift(frames[start], frames[start + 1])
        axis = {0: x, 1: y, 2: -x, 3: -y}[direction]
        assert 1.2 <= axis <= 1.8  # 1.5 pixels, within a fifth
    changed = [(frames[i] != frames[i + 1]).any() for i in range(total - 1)]
    assert changed == moving[:-1].tolist()


def test_labels_are_the_directions_of_all_objects() -> None:
    spec = replace(PRESETS["labels"], train=40)
    drawn = [spec.directions(clip)[0] for clip in spec.clips("train")]
    assert {len(one) for one in drawn} == {1, 2, 3}
    frames = spec.draw(spec.clips("train")[0])
    count = len(drawn[0])
    parts = [cv2.connectedComponents((f.mean(axis=-1) > 128).astype(np.uint8))[0] for f in frames]
    assert max(parts) - 1 >= count  # parts at the borders count twice


def test_annotations(tmp_path) -> None:
    for name, task in (("labels", "labels"), ("speed", "number"), ("scripts", "frames")):
        spec, root = replace(PRESETS[name], **SMALL), tmp_path / name
        spec.write(root)
        lists = read_task_lists(root, task)
        assert lists.counts == SMALL
    values = parse_values(read_table(tmp_path / "speed" / "test.csv")).videos
    speed = PRESETS["speed"]
    assert values["test/test_00001.mp4"][0].values == (
        pytest.approx(speed.speed(speed.clips("test")[1])[0] * 25 / 64, abs=1e-5),
    )
    spans = read_spans(tmp_path / "scripts" / "val.csv")["val/val_00000.mp4"]
    scripts = PRESETS["scripts"]
    rows, total, _ = scripts.script(scripts.clips("val")[0])
    assert [round(one.start * 12) for one in spans] == [row[1] for row in rows]
    capture = cv2.VideoCapture(str(tmp_path / "scripts" / "val" / "val_00000.mp4"))
    assert capture.get(cv2.CAP_PROP_FRAME_COUNT) == total


def test_boxes_hold_the_objects(tmp_path) -> None:
    spec = replace(PRESETS["boxes"], **SMALL)
    for clip in spec.clips("train"):
        frames, (directions, centers, _) = spec.draw(clip), spec.script(clip)
        assert len(set(directions)) == 3
        half, outside = 0.22 / 2 * 64 + 1, np.ones((64, 64), bool)
        for one, (x, y) in zip(directions, centers, strict=True):
            rows, columns = (slice(max(int(c - half), 0), int(c + half) + 1) for c in (y, x))
            outside[rows, columns] = False
            patch, later = (frames[i][rows, columns].mean(axis=-1) for i in (25, 26))
            places = np.argwhere(patch > 128).mean(axis=0), np.argwhere(later > 128).mean(axis=0)
            moved = (places[1] - places[0])[::-1]
            axis = {0: moved[0], 1: moved[1], 2: -moved[0], 3: -moved[1]}[one]
            assert axis > 0.5
        assert frames[25][outside].max() < 128
    spec.write(tmp_path)
    assert read_task_lists(tmp_path, "boxes").counts == SMALL

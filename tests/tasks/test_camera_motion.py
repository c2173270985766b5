"""Answers about the camera: classes, rates, several labels, and none."""

import csv

import numpy as np
import pytest
import torch
from mmaction.structures import ActionDataSample

from lab.synthetic.camera.paths import CLASSES
from lab.synthetic.camera.textures import texture
from mmvidformer.data.transforms.structure import MeasureStructure, structure_of
from mmvidformer.models.camera_head import PER_SPEED, THRESHOLD
from mmvidformer.sinks.annotate import prediction_bars
from mmvidformer.sinks.base import SinkOptions
from mmvidformer.sinks.segments import SegmentsCsv
from mmvidformer.sinks.timeline import draw_timeline
from mmvidformer.tasks.camera_motion import LEAST_SHAKE, LIMITS
from mmvidformer.tasks.joined_windows import list_segments
from mmvidformer.tasks.table import CAMERA, task_of_head

NAMES = {"class": CLASSES}


def answer(
    best: str = "pan right",
    start: float = 0.0,
    pan: float = 0.25,
    shake: float = 0.001,
    **facts: object,
):
    """A prediction of a window of one second."""
    sample = ActionDataSample(metainfo=facts)
    scores = torch.full((9,), 0.02)
    scores[CLASSES.index(best)] = 0.84
    sample.set_pred_score(scores)
    sample.pred_rates = torch.tensor([pan, 0.0, 0.125, -3.0, shake])
    sample.pred_moves = torch.zeros(9, dtype=torch.bool)
    sample.pred_moves[[CLASSES.index(best), 6]] = True
    where = dict(source="x.mp4", seconds=(start, start + 1))
    (prediction,) = CAMERA.answers(sample, NAMES, is_logits=False, **where)
    return prediction


def test_a_prediction_has_classes_rates_and_labels() -> None:
    assert task_of_head(dict(type="mmvidformer.CameraMotionHead")) is CAMERA
    found = answer()
    assert found.top(1) == [(2, "pan right", pytest.approx(0.84))]
    shake = pytest.approx(0.001)
    assert found.values == {"pan": 0.25, "tilt": 0.0, "zoom": 0.125, "roll": -3.0, "shake": shake}
    assert found.labels == ("pan right", "zoom in") and not found.doubt
    text = "pan right 84%; pan +0.25, tilt +0.00, zoom +0.12, roll -3.0 deg, shake 0.001"
    assert found.text(1) == text
    assert found.row() == {
        **{"video": "x.mp4", "start": 0, "end": 1, "label": "pan right", "score": 0.84},
        **{"labels": "pan right;zoom in", **found.values, "shake": 0.001, "doubt": ""},
    }
    classes, rates = prediction_bars(found, 2, "now")
    assert classes.heading == "now" and ("roll -3.0 deg", None) in rates.classes


def test_a_shaking_camera_has_a_label_more() -> None:
    assert answer(shake=0.02).labels == ("pan right", "zoom in", "shake")
    assert answer("static", shake=0.004).labels == ("static", "zoom in")


SHORT = dict(clip_len=8, frame_inds=np.array([0, 3, 6, 8, 8, 8, 8, 8]))  # 0.3 s


@pytest.mark.parametrize(
    ("facts", "doubt"),
    [
        (SHORT, "too short"),
        (dict(clip_len=8, frame_inds=np.zeros(32, int)), "too short"),
        (dict(clip_len=8, frame_inds=np.array([0, 1, 2, 3, 4, 4, 4, 4])), ""),  # half a second
        (dict(clip_len=8, frame_inds=np.arange(8).repeat(2)[:8]), ""),  # 4 frames a second
        (dict(structure=0.5), "nothing to see"),
        (dict(structure=9.0), ""),
        ({}, ""),
    ],
)
def test_what_allows_no_answer(facts: dict, doubt: str) -> None:
    assert answer(**facts).doubt == doubt


def test_an_uncertain_answer_has_no_class() -> None:
    found = answer(**SHORT)
    assert found.top(3) == [(-1, "uncertain", 0.0)] and found.text() == "uncertain (too short)"
    row = found.row()
    assert (row["label"], row["score"], row["doubt"]) == ("uncertain", 0, "too short")
    (bars,) = prediction_bars(found, 3, "now")
    assert bars.classes == [("uncertain (too short)", None)]
    assert found.probabilities["class"].sum() == pytest.approx(1)


def test_segments_have_mean_rates_and_end_at_cuts(tmp_path) -> None:
    """The third window begins where the second one ends."""
    windows = [answer(pan=0.25), answer(start=0.5, pan=0.75), answer("static", 1.5, 0.0)]
    with SegmentsCsv(tmp_path / "a.csv", SinkOptions()) as table:
        for window in windows:
            table.append(window)
    with open(tmp_path / "a.csv", newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["start"], first["end"], first["label"]) == ("0.0", "1.5", "pan right")
    assert (first["pan"], first["roll"], second["pan"]) == ("0.5", "-3.0", "0.0")
    assert [segment.end for segment in list_segments(windows)] == [1.5, 2.5]


def test_rates_are_drawn_below_the_classes() -> None:
    figure = draw_timeline([answer(), answer(start=1.0, pan=0.5), answer(start=2.0, **SHORT)])
    classes, *rates = figure.axes
    names = [axes.get_ylabel().replace("\n", ", ") for axes in rates]
    assert names == [f"{name}, {unit}" for name, unit in CAMERA.units.items()]
    assert rates[0].lines[0].get_xydata().tolist() == [[0.5, 0.25], [1.5, 0.5]]
    assert classes.get_ylabel() == "probability"


def test_small_rates_look_small() -> None:
    """Their axes reach the limits, dotted, from which on a rate is a label."""
    _, *rates = draw_timeline([answer(), answer(start=1.0, shake=0.002)]).axes
    for axes, limits in zip(rates, CAMERA.limits.values(), strict=True):
        dotted = [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == ":"]
        assert dotted == [*limits]
        low, high = axes.get_ylim()
        assert low <= min(limits) and max(limits) <= high


def test_limits_are_those_of_the_head() -> None:
    speeds = THRESHOLD * np.array(PER_SPEED)
    np.testing.assert_allclose([limits[1] for limits in LIMITS[:4]], speeds, rtol=1e-3)
    assert LIMITS[4] == (LEAST_SHAKE,)


def test_the_page_shows_shares_of_the_time() -> None:
    windows = [answer(), answer("static"), answer(), answer(**SHORT)]
    assert CAMERA.summary(windows, 2) == {"pan right": 0.5, "static": 0.25}


def test_structure() -> None:
    noise = np.random.default_rng(0).normal(0, 6, (64, 64, 3))
    lamp = np.linspace(60, 160, 64)[:, None, None]
    wall = np.clip(lamp + noise, 0, 255).astype(np.uint8)
    assert structure_of(np.zeros((64, 64, 3), np.uint8)) < 0.1
    assert structure_of(wall) < 1.5 < 3 < structure_of(texture(3)[:64, :64])
    found = MeasureStructure().transform({"imgs": [wall, texture(3)[:64, :64], wall]})
    assert found["structure"] < 1.5 and len(found["imgs"]) == 3

"""Metrics of numbers, and of classes over time."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from mmengine.structures import InstanceData
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    r2_score,
)

from mmvidformer.registry import METRICS
from mmvidformer.tasks.frames_metric import FramesMetric, list_runs
from mmvidformer.tasks.metrics import BoxesMetric, LabelsMetric, NumberMetric, SegmentsMetric
from mmvidformer.tasks.multi_task import MultiTaskAccuracy, mean_topk_recall


@pytest.fixture
def log(monkeypatch) -> Callable[[], str]:
    """What was logged since the last call."""
    lines: list[str] = []
    for module in ("mmvidformer.tasks.shares", "mmvidformer.repairs.accuracy"):
        monkeypatch.setattr(f"{module}.print_log", lambda text, **_: lines.append(text))

    def read() -> str:
        text = "\n".join(lines)
        lines.clear()
        return text

    return read


NAMES = ["a", "b", "c", "d", "background"]
TRUTH = np.repeat([4, 0, 4, 1, 2, 4, 3, 0], [5, 20, 3, 12, 9, 4, 16, 7])
FOUND = np.repeat([4, 0, 1, 2, 4, 2, 3, 1, 0], [7, 14, 10, 6, 12, 3, 13, 4, 7])


def frames_metric(*videos: tuple[np.ndarray, np.ndarray], names=NAMES, fps=10.0) -> dict:
    """Results for found and true classes of the frames of videos."""
    metric = FramesMetric()
    metric.dataset_meta = {"classes": names}
    for found, truth in videos:
        spans = [(p.start / fps, p.end / fps, p.label) for p in list_runs(truth, [-1])]
        sample = dict(total_frames=len(truth), avg_fps=fps, step=1.0, background=-1, spans=spans)
        scores = torch.eye(len(names))[torch.from_numpy(found)]
        metric.process(None, [{**sample, "pred_score": scores}])
    return metric.evaluate(sum(1 for _ in videos))


def test_frames_as_the_official_evaluation_of_ms_tcn_counts_them() -> None:
    """The expected counts are those of its eval.py on these two sequences."""
    counts = {0.1: (4, 3, 1), 0.25: (3, 4, 2), 0.5: (3, 4, 2)}
    expected = {
        f"frames/f1@{round(100 * iou)}": 2 * hits / (2 * hits + false + missed)
        for iou, (hits, false, missed) in counts.items()
    }
    expected |= {"frames/accuracy": 41 / 76, "frames/edit": 5 / 7}
    assert frames_metric((FOUND, TRUTH)) == pytest.approx(expected)


def test_videos_share_frames_and_parts_but_edit_scores_are_averaged() -> None:
    right = np.repeat([0, 1], [2, 2])
    results = frames_metric((FOUND, TRUTH), (right, right))
    assert results["frames/accuracy"] == pytest.approx(45 / 80)
    assert results["frames/edit"] == pytest.approx((5 / 7 + 1) / 2)
    assert results["frames/f1@50"] == pytest.approx(2 * 5 / (2 * 5 + 4 + 2))


def test_frames_without_a_class_do_not_count() -> None:
    truth, found = np.array([0, 0, -1, -1, 1, 1]), np.array([0, 0, 1, 0, 1, 0])
    results = frames_metric((found, truth), names=["a", "b"])
    assert results["frames/accuracy"] == pytest.approx(3 / 4)
    unknown = np.full(9, -1), np.zeros(9, int)
    assert frames_metric((found, truth), unknown[::-1], names=["a", "b"]) == results


def test_frames_without_a_class_end_a_part() -> None:
    """Of the two parts of class 0, the first is found, and half of the second."""
    truth, found = np.array([0, 0, -1, 0, 0, 0, 0]), np.array([0, 0, 0, 0, 0, 1, 1])
    results = frames_metric((found, truth), names=["a", "b"])
    assert results["frames/edit"] == pytest.approx(1 - 1 / 3)
    assert results["frames/f1@50"] == pytest.approx(2 * 2 / (2 * 2 + 1))
    assert results["frames/accuracy"] == pytest.approx(4 / 6)


def test_frames_need_annotations(log) -> None:
    assert frames_metric((np.zeros(9, int), np.full(9, -1)), names=["a"]) == {}
    assert "no accuracy of frames: the videos have no annotated frames" in log()


def test_background_alone_has_no_runs(log) -> None:
    """F1 of nothing is not 0, and the edit score of nothing is not 1."""
    background = np.full(9, 4)
    assert frames_metric((background, background)) == {"frames/accuracy": 1}
    assert "no edit score and F1 of frames: all frames are background" in log()
    found = frames_metric((np.zeros(9, int), background))
    assert found["frames/f1@50"] == found["frames/accuracy"] == 0


@pytest.mark.parametrize("background", [-1, 1])
def test_a_bad_video_lasts_until_its_last_annotation(background: int) -> None:
    """At 20 frames per second, the mean of the others; other time is the background, if any."""
    metric = FramesMetric()
    metric.dataset_meta = {"classes": ["a", "background"][: 1 + (background == 1)]}
    for fps in (10.0, 30.0):
        sample = dict(total_frames=20, avg_fps=fps, step=1.0, background=background)
        sample |= dict(spans=[(0, 20 / fps, 0)], pred_score=torch.ones(20, 1))
        metric.process(None, [sample])
    bad = dict(bad_video="cut off", spans=[(1, 2, 0), (3, 4.5, 0)], background=background)
    metric.process(None, [bad, {**bad, "spans": []}])
    frames = 50 if background == -1 else 90 + 1  # the one without spans has a frame of background
    expected = {"frames/accuracy": 40 / (40 + frames)}
    expected["frames/edit"] = 2 / (3 if background == -1 else 4)
    expected |= {f"frames/f1@{iou}": 2 * 2 / (2 * 2 + 2) for iou in (10, 25, 50)}
    assert metric.evaluate(4) == pytest.approx(expected)


@pytest.mark.parametrize("columns", [1, 2])
def test_numbers(columns: int) -> None:
    rng = np.random.default_rng(0)
    truth, found = rng.normal(size=(2, 9, columns)).astype(np.float32)
    metric = NumberMetric()
    metric.dataset_meta = {"classes": ["speed", "count"][:columns]}
    for one, two in zip(found, truth, strict=True):
        sample = {"pred_score": torch.from_numpy(one), "gt_label": torch.from_numpy(two)}
        metric.process(None, [sample])
    results = metric.evaluate(9)
    each = np.abs(truth - found).mean(axis=0)
    expected = {"number/r2": r2_score(truth, found), "number/mae": each.mean()}
    if columns == 2:
        expected |= {"number/mae_speed": each[0], "number/mae_count": each[1]}
    assert results == pytest.approx(expected, rel=1e-5)


def segments(truth: list, found: list) -> dict:
    """A data sample of a video: true (start, end, class), found (start, end, class, score)."""
    rows = torch.tensor(found, dtype=torch.float).reshape(-1, 4)
    instances = dict(segments=rows[:, :2], labels=rows[:, 2].long(), scores=rows[:, 3])
    return {"spans": truth, "pred_instances": instances}


def test_segments() -> None:
    """By hand: AP of class 0 is 1/2 (a hit of two), of class 1 it is 5/6 at 0.5 and 0 at 0.9."""
    metric = SegmentsMetric(ious=(0.5, 0.9))
    metric.process(None, [
        segments([(0, 10, 0), (20, 30, 0), (40, 50, 1)],
                 [(0, 10, 0, 0.9), (0, 9.5, 0, 0.8), (41, 51, 1, 0.7), (40, 48, 2, 1.0)]),
        segments([(5, 10, 1)], [(20, 25, 1, 0.6), (5, 9, 1, 0.5)]),
        segments([], [(0, 1, 0, 0.1)]),
    ])  # fmt: skip
    # Class 1 at 0.5: hit, miss, hit, so precision 1 up to recall 1/2 and 2/3 up to recall 1.
    expected = {"segments/mAP@50": (1 / 2 + 5 / 6) / 2, "segments/mAP@90": 1 / 4}
    expected["segments/mAP"] = sum(expected.values()) / 2
    assert metric.evaluate(3) == pytest.approx(expected, abs=1e-6)


def test_segments_need_annotations(log) -> None:
    metric = SegmentsMetric()
    metric.process(None, [segments([], [(0, 1, 0, 0.1)])])
    assert metric.evaluate(1) == {}
    assert "no mAP of segments: the videos have no annotated segments" in log()


def accuracy(labels: list[int], answers: list[int], classes: int = 4) -> dict:
    """Results of MMAction2's metric, from the registry, as configs name it."""
    metric = METRICS.build(dict(type="AccMetric", metric_options=dict(top_k_accuracy=dict(topk=1))))
    for label, answer in zip(labels, answers, strict=True):
        scores = torch.eye(classes)[answer]
        metric.process(None, [dict(gt_label=torch.tensor([label]), pred_score=scores)])
    return metric.evaluate(len(labels))


@pytest.mark.parametrize("seed", range(5))
def test_mean_class_accuracy_is_that_of_scikit_learn(seed: int) -> None:
    """And that of several tasks, for lists without some classes."""
    rng = np.random.default_rng(seed)
    labels, answers = rng.integers(0, 12, 20) // 2, rng.integers(0, 12, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that are predicted only
        expected = balanced_accuracy_score(labels, answers)
    found = accuracy(labels.tolist(), answers.tolist(), 12)
    assert found["acc/mean1"] == pytest.approx(expected)
    assert found["acc/top1"] == pytest.approx(accuracy_score(labels, answers))
    ranks = (labels != answers).astype(int)
    assert mean_topk_recall(ranks, labels, k=1) == pytest.approx(expected)


def test_videos_without_a_label_do_not_count(log) -> None:
    assert accuracy([0, -1, 1, -1], [0, 3, 0, 0]) == accuracy([0, 1], [0, 0])
    assert "2 of 4 videos have a label: the accuracy is that of these" in log()
    assert accuracy([-1, -1], [0, 3]) == {}
    assert "0 of 2 videos have a label: there is no accuracy" in log()


def test_samples_of_several_tasks_without_labels_do_not_count() -> None:
    def evaluate(*labels: tuple[int, int]) -> dict:
        metric = MultiTaskAccuracy(topk=(1,))
        for noun, verb in labels:
            scores = dict(noun=torch.tensor([0.2, 0.8]), verb=torch.tensor([0.9, 0.1]))
            metric.process(None, [dict(pred_score=scores, gt_label=torch.tensor([noun, verb]))])
        return metric.evaluate(len(labels))

    assert evaluate((1, 0), (-1, -1), (0, 0)) == evaluate((1, 0), (0, 0))
    assert evaluate((-1, -1)) == {}


@pytest.mark.parametrize("classes", [1, 3])
def test_labels_that_no_video_has(classes: int, log) -> None:
    """Their precision is not defined; scikit-learn's is 0 with a warning."""
    rng = np.random.default_rng(0)
    scores, labels = rng.random((9, classes)), rng.integers(0, 2, (9, classes))
    precision = average_precision_score(labels, scores, average="macro")
    for count in (0, 1):  # of other classes
        metric = LabelsMetric()
        for row, truth in zip(scores, labels, strict=True):
            found = torch.tensor([*row, *[0.5] * count])
            truth = torch.tensor([*truth, *[0] * count])
            metric.process(None, [{"pred_score": found, "gt_label": truth}])
        assert metric.evaluate(9) == {"acc/mean_average_precision": pytest.approx(precision)}
    metric.process(None, [{"pred_score": found, "gt_label": torch.zeros(classes + 1)}])
    assert metric.evaluate(1) == {}
    assert "no mean average precision: no video has a label" in log()


@pytest.mark.parametrize("truth", [[[1.0, 2.0]], [[1.0, 2.0], [1.0, 3.0]]], ids=["one", "constant"])
def test_r2_of_values_that_do_not_differ(truth: list, log) -> None:
    """It is not defined for them: scikit-learn has NaN for one video, and 0 or 1 for more."""
    metric = NumberMetric()
    for row in truth:
        sample = {"pred_score": torch.tensor([0.5, 2.5]), "gt_label": torch.tensor(row)}
        metric.process(None, [sample])
    found = metric.evaluate(len(truth))
    if len(truth) == 1:
        assert "number/r2" not in found and "no R^2: it needs videos with different" in log()
    else:
        assert found["number/r2"] == pytest.approx(r2_score([2, 3], [2.5, 2.5]))
    assert found["number/mae_0"] == 0.5


def test_a_class_of_boxes_that_is_never_found(tmp_path) -> None:
    """It counts as 0, as in AVA's evaluation: the mean of AP 1 and 0, not of AP 1 alone."""
    truth = tmp_path / "truth.csv"
    truth.write_text("v,1,0.1,0.1,0.5,0.5,1\nv,1,0.1,0.1,0.5,0.5,2\n")
    names = tmp_path / "names.pbtxt"
    names.write_text("".join(f'item {{\n  name: "{i}"\n  id: {i}\n}}\n' for i in (1, 2, 3)))
    metric = BoxesMetric(str(truth), None, str(names), action_thr=0.2, num_classes=4)
    found = InstanceData(
        bboxes=torch.tensor([[0.1, 0.1, 0.5, 0.5]]), scores=torch.tensor([[0.0, 0.9, 0.1, 0.8]])
    )
    metric.process(None, [dict(video_id="v", timestamp=1, pred_instances=found)])
    assert metric.evaluate(1) == {"mAP/overall": 0.5}

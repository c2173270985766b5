"""Metrics on the scores of ``official.py``, and what the official evaluations gave for them."""

import pytest
import torch
from mmaction.evaluation import AccMetric

from mmvidformer.tasks.metrics import LabelsMetric
from mmvidformer.tasks.multi_task import AnticipationMetric, MultiTaskAccuracy
from tests.tasks import official_scores as official

# 0.75, 0.5 and 0.25 s before the action: top 1, top 5, mean top-5 recall of all classes and of
# those that are many-shot.
ANTICIPATION = {
    "verb": [
        (0.2125, 0.5125, 0.7625),
        (0.7875, 0.925, 0.975),
        (0.7694889494, 0.9430926217, 0.9677871148),
        (0.8204365079, 0.8928571429, 0.9444444444),
    ],
    "noun": [
        (0.15, 0.275, 0.625),
        (0.5375, 0.725, 0.9875),
        (0.5316798942, 0.7412698413, 0.9895833333),
        (0.5555555556, 0.8055555556, 0.9583333333),
    ],
    "action": [
        (0.025, 0.1375, 0.4625),
        (0.1125, 0.4375, 0.8625),
        (0.0929232804, 0.4261904762, 0.8725198413),
        (0.1488095238, 0.3968253968, 0.8700396825),
    ],
}
# Top 1 and top 5.
RECOGNITION = {
    "verb": (0.4111111111, 0.8888888889),
    "noun": (0.3222222222, 0.8),
    "action": (0.1777777778, 0.3888888889),
}
CHARADES = 0.8155317681


@pytest.mark.parametrize("many_shot", [None, official.MANY_SHOT], ids=["all", "many-shot"])
def test_anticipation_as_rulstm(many_shot) -> None:
    scores, labels = official.anticipation()
    metric = AnticipationMetric(many_shot=many_shot)
    metric.dataset_meta = {"actions": official.PAIRS, "discarded": []}
    for i, label in enumerate(labels):
        video_scores = {task: torch.from_numpy(x[i]) for task, x in scores.items()}
        metric.process(None, [{"pred_score": video_scores, "gt_label": torch.from_numpy(label)}])
    names = ("top1", "top5", None, "recall5") if many_shot else ("top1", "top5", "recall5", None)
    expected = {
        f"{task}/{name}_{time}s": value
        for task, rows in ANTICIPATION.items()
        for name, row in zip(names, rows, strict=True)
        for time, value in zip(("0.75", "0.50", "0.25"), row, strict=True)
        if name
    }
    assert metric.evaluate(len(labels)) == pytest.approx(expected, abs=1e-9)


def test_recognition_as_epic_kitchens() -> None:
    scores, labels = official.recognition()
    metric = MultiTaskAccuracy(tasks=("verb", "noun"))
    for i, label in enumerate(labels):
        video_scores = {task: torch.from_numpy(x[i]) for task, x in scores.items()}
        metric.process(None, [{"pred_score": video_scores, "gt_label": torch.from_numpy(label)}])
    results = metric.evaluate(len(labels))
    for task, row in RECOGNITION.items():
        found = tuple(results[f"{task}/top{k}"] for k in (1, 5))
        assert found == pytest.approx(row, abs=1e-9), task


@pytest.mark.parametrize(
    "metric",
    [LabelsMetric(), AccMetric(metric_list=("mean_average_precision",))],
    ids=["our", "their"],
)
def test_several_labels_as_charades(metric) -> None:
    scores, labels = official.several_labels()
    for row, label in zip(torch.from_numpy(scores), torch.from_numpy(labels), strict=True):
        metric.process(None, [{"pred_score": row, "gt_label": label}])
    found = metric.evaluate(len(labels))
    assert found == {"acc/mean_average_precision": pytest.approx(CHARADES, abs=1e-7)}

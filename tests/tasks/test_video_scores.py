"""Segments that take their classes from scores of whole videos."""

import json
from pathlib import Path

import pytest
import torch

from mmvidformer.errors import UserError
from mmvidformer.tasks.metrics import SegmentsMetric

SCORES = {"a": [0.1, 0.7, 0.2], "b.mp4": [0.6, 0.1, 0.3]}
FOUND = {
    "x/a.mp4.npz": [(0, 1, 0, 0.9), (1, 3, 1, 0.4), (2, 5, 2, 0.1)],
    "x/b.mp4.npz": [(3, 4, 2, 0.5), (4, 6, 1, 0.8)],
}


def metric_of(file: Path, content: object) -> SegmentsMetric:
    file.write_text(json.dumps(content))
    metric = SegmentsMetric(video_scores=str(file), video_segments=2)
    metric.dataset_meta = {"classes": ["run", "jump", "sit"]}
    return metric


def samples() -> list[dict]:
    listed = []
    for path, rows in FOUND.items():
        table = torch.tensor(rows)
        found = dict(segments=table[:, :2], labels=table[:, 2], scores=table[:, 3])
        listed.append(dict(video_path=path, spans=[(0, 1, 1)], pred_instances=found))
    return listed


@pytest.mark.parametrize("content", [SCORES, {"results": SCORES}])
def test_segments_are_those_that_actionformer_returns(content: dict, tmp_path) -> None:
    """What its ``postprocess_results`` (61ea7eb) returned for two segments and two classes."""
    metric = metric_of(tmp_path / "scores.json", content)
    metric.process(None, samples())
    (_, first), (_, second) = metric.results
    assert first[:, :3].tolist() == [[0, 1, 1], [1, 3, 1], [0, 1, 2], [1, 3, 2]]
    assert second[:, :3].tolist() == [[4, 6, 0], [3, 4, 0], [4, 6, 2], [3, 4, 2]]
    assert first[:, 3] == pytest.approx([0.7937254, 0.5291503, 0.4242641, 0.2828427])
    assert second[:, 3] == pytest.approx([0.6928203, 0.5477226, 0.4898979, 0.3872983])
    assert metric.evaluate(2)["segments/mAP@50"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": [0.1, 0.7, 0.2]}, "has no scores of b.mp4.npz"),
        (
            {**SCORES, "a": [0.5, 0.5]},
            r"score of a for each of 3 classes, got the shape \(2,\)",
        ),
        ({"results": [1]}, "must have scores by the names of videos, got a list"),
        ([1, 2], "must have a JSON object, got a list"),
    ],
)
def test_files_that_do_not_fit(content: object, message: str, tmp_path) -> None:
    with pytest.raises(UserError, match=message):
        metric_of(tmp_path / "scores.json", content).process(None, samples())


def test_a_file_that_is_no_json(tmp_path) -> None:
    (tmp_path / "scores.json").write_text("video,score")
    with pytest.raises(UserError, match="scores.json must have a JSON object"):
        SegmentsMetric(video_scores=str(tmp_path / "scores.json"))

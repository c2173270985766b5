"""Moments: their metric is SoccerNet's, their csv has times, their head finds and joins peaks."""

from pathlib import Path

import numpy as np
import pytest
import torch
from mmaction.structures import ActionDataSample

from mmvidformer.data.importers import open_annotations
from mmvidformer.data.tables import read_table
from mmvidformer.models.moments_head import MomentsHead
from mmvidformer.models.soft_nms import segment_iou
from mmvidformer.tasks.annotations import read_spans
from mmvidformer.tasks.checks import guess_task
from mmvidformer.tasks.lists import read_task_lists, split_annotations
from mmvidformer.tasks.moments_metric import MomentsMetric
from mmvidformer.tasks.table import find_task
from mmvidformer.video.times import FrameTimes

# What ``SoccerNet.Evaluation.ActionSpotting.average_mAP`` of the package SoccerNet 0.2.0 returned
# for the moments below, at 2 frames per second: ``deltas`` of its tight and its loose metric, and
# one at a time.
TIGHT, LOOSE = 0.37480486224320114, 0.7808347831770255
AT = {1: 0.176976, 2: 0.27189973, 3: 0.40179567, 4: 0.47364455, 5: 0.52678299, 60: 0.84695955}


def random_moments() -> list[dict]:
    """Data samples of six videos of two minutes, with three classes."""
    rng, samples = np.random.default_rng(0), []
    for _ in range(6):
        truth = np.stack([rng.integers(0, 240, 30) / 2, rng.integers(0, 3, 30)], 1).astype(float)
        near = truth[:20, 0] + rng.normal(0, 1.5, 20)
        times = np.concatenate([near, rng.uniform(0, 120, 20)]).clip(0, 119)
        labels = np.concatenate([truth[:20, 1], rng.integers(0, 3, 20)])
        found = dict(
            segments=torch.from_numpy(np.stack([times, times], 1)),
            labels=torch.from_numpy(labels),
            scores=torch.from_numpy(rng.uniform(0, 1, 40)),
        )
        samples.append(dict(spans=truth[:, [0, 0, 1]], pred_instances=found))
    return samples


@pytest.mark.parametrize(
    ("tolerances", "mean"), [((1, 2, 3, 4, 5), TIGHT), (tuple(range(5, 65, 5)), LOOSE)]
)
def test_metric_is_that_of_soccernet(tolerances: tuple, mean: float) -> None:
    metric = MomentsMetric(tolerances)
    metric.dataset_meta = dict(classes=("a", "b", "c"))
    metric.process(None, random_moments())
    results = metric.evaluate(6)
    assert results["moments/mAP"] == pytest.approx(mean, abs=1e-6)
    assert results["moments/mean"] == (results["moments/mAP"] + results["moments/mAP_fine"]) / 2
    for tolerance in AT.keys() & set(tolerances):
        assert results[f"moments/mAP@{tolerance}s"] == pytest.approx(AT[tolerance], abs=1e-6)


def test_the_fine_metric_tells_answers_apart_that_soccernet_does_not() -> None:
    """Within 0.1, 0.2 and 0.4 s; of SoccerNet's tight metric half a second is nothing."""
    fine = {}
    for late in (0.0, 0.15, 0.3, 0.45):
        metric = MomentsMetric()
        metric.dataset_meta = dict(classes=("a",))
        times = torch.tensor([2.0, 7.0]) + late
        found = dict(segments=torch.stack([times, times], 1), labels=torch.zeros(2))
        found["scores"] = torch.ones(2)
        metric.process(None, [dict(spans=[(2, 2, 0), (7, 7, 0)], pred_instances=found)])
        results = metric.evaluate(1)
        assert results["moments/mAP"] == 1
        fine[late] = results["moments/mAP_fine"]
    assert fine == {0.0: 1, 0.15: pytest.approx(2 / 3), 0.3: pytest.approx(1 / 3), 0.45: 0}


def test_no_moments_no_result() -> None:
    metric = MomentsMetric()
    metric.process(None, [random_moments()[0] | dict(spans=[])])
    assert metric.evaluate(1) == {}


@pytest.mark.parametrize(
    "text",
    [
        "video,time,label\na.mp4,1.5,hit\na.mp4,0,fall\n",
        "video,start,end,label\na.mp4,1.5,1.5,hit\na.mp4,0,0,fall\n",
    ],
)
def test_a_file_has_times_or_equal_ends(text: str, tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text(text)
    lists = split_annotations(
        open_annotations(tmp_path / "all.csv"), "moments", tmp_path, 0, 0, check=False
    )
    assert lists.classes == ("fall", "hit")
    lists = read_task_lists(tmp_path, "event-spotting")
    assert find_task("moments").class_sizes(lists).tolist() == [1, 1]
    (spans,) = read_spans(tmp_path / "train.csv", overlap=True).values()
    assert [span[:3] for span in spans] == [(0, 0, "fall"), (1.5, 1.5, "hit")]


def test_mistakes_and_the_guessed_task(tmp_path: Path) -> None:
    file = tmp_path / "all.csv"
    file.write_text("video,time,label\na.mp4,-1,hit\na.mp4,x,hit\n")
    assert guess_task(read_table(file)).name == "moments"
    faults = find_task("moments").read(read_table(file)).faults
    assert faults == [
        f"{file}, line 3: time must be a number, got 'x'",
        f"{file}, line 2: time must be at least 0, got -1",
    ]


def test_spans_keep_a_length(tmp_path: Path) -> None:
    file = tmp_path / "all.csv"
    file.write_text("video,start,end,label\na.mp4,1,1,hit\n")
    (fault,) = find_task("segments").read(read_table(file)).faults
    assert "start must be at least 0 and below end, got 1 to 1" in fault


def sample_of(spans: list, first: int = 0) -> ActionDataSample:
    facts = dict(spans=spans, avg_fps=10.0, num_clips=1, frame_step=1.0, start_index=0)
    facts |= dict(frame_inds=np.arange(first, first + 20), total_frames=100)
    return ActionDataSample(metainfo=facts)


def test_targets_are_the_nearest_moment() -> None:
    """Steps of two frames at 10 frames per second: a moment at 1 s is in step 5."""
    head = MomentsHead(2, 4, hidden_dim=8)
    labels, distances = head.targets(sample_of([(1.0, 1.0, 0), (1.5, 1.5, 1)]), 2.0, 10)
    assert labels.tolist() == [2, 2, 2, 2, 0, 0, 1, 1, 1, 2]
    assert distances.tolist() == [0, 0, 0, 0, 0.5, -0.5, 1, 0, -1, 0]
    labels, distances = head.targets(sample_of([(1.0, 1.0, 0)], first=10), 2.0, 10)
    assert labels.tolist() == [0, 0, *[2] * 8]
    assert distances.tolist() == [-0.5, -1.5, *[0] * 8]


def test_head_learns_where_moments_are() -> None:
    torch.manual_seed(0)
    head = MomentsHead(2, 4, hidden_dim=16)
    tokens, spans = torch.randn(1, 10, 1, 1, 4), [(0.53, 0.53, 1), (1.62, 1.62, 0)]
    optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        sum(head.loss(tokens, [sample_of(spans)]).values()).backward()
        optimizer.step()
    found = head.segments(tokens[:, :, 0, 0], 2.0, 20, FrameTimes(10.0))
    found = found.select(found.scores > 0.5)
    assert torch.equal(found.segments[:, 0], found.segments[:, 1])
    pairs = zip(found.segments[:, 0].tolist(), found.labels.tolist(), strict=True)
    (first, one), (second, other) = sorted(pairs)
    assert (one, other) == (1, 0)
    assert (first, second) == (pytest.approx(0.53, abs=0.04), pytest.approx(1.62, abs=0.04))


def test_a_wide_peak_is_one_moment() -> None:
    """Steps beside it are less likely, however far they reach."""
    head = MomentsHead(1, 1, hidden_dim=1)
    scores = torch.tensor([0.1, 0.8, 0.95, 0.99, 0.95, 0.9, 0.1, 0.1, 0.7, 0.1])
    distances = torch.tensor([0, 0, 9, 0.25, 9, 0, 0, 0, -0.5, 0])
    outputs = torch.stack([scores.logit(), torch.zeros(10), distances], dim=-1)
    head.forward = lambda x, clips: outputs[None]
    found = head.segments(torch.zeros(1, 10, 1), 4.0, 40, FrameTimes(10.0))
    assert found.segments[:, 0].tolist() == pytest.approx([1.5, 3.2])  # at 1.4 and 3.4 by steps
    assert found.scores.tolist() == pytest.approx([0.99, 0.7])


def test_moments_are_the_same_within_half_a_second() -> None:
    moment = torch.tensor([1.0, 1.0])
    others = torch.tensor([[1.0, 1.0], [1.5, 1.5], [0.4, 0.4], [0.0, 2.0]])
    assert segment_iou(moment, others).tolist() == [1, 1, 0, 0]

"""Metrics with videos that could not be read."""

import pickle

import numpy as np
import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.evaluator import Evaluator
from mmengine.registry import DefaultScope

from mmvidformer.engine.bad_videos import BadVideoEvaluator


@pytest.fixture(autouse=True)
def scope():
    with DefaultScope.overwrite_default_scope("mmaction"):
        yield


def sample(label, scores, bad=None):
    """A prediction; ``bad`` flags it."""
    made = ActionDataSample().set_gt_label(label)
    made.pred_score = scores
    if bad is not None:
        made.set_metainfo({"bad_video": "cut off", "bad_path": bad})
    return made


def right(label, bad=None):
    return sample(label, 5.0 * torch.eye(3)[label], bad)


def evaluate(metrics, samples, size=None):
    evaluator = BadVideoEvaluator(Evaluator(metrics))
    for one in samples:
        evaluator.process([one])
    return evaluator.evaluate(len(samples) if size is None else size)


ACCURACY = dict(type="AccMetric", metric_options=dict(top_k_accuracy=dict(topk=(1, 2))))


def test_bad_videos_count_as_wrong():
    samples = [right(0), right(1), sample(1, 5.0 * torch.eye(3)[2]), right(2, bad="b.mp4")]
    results = evaluate([ACCURACY], samples)
    assert results["bad_videos"] == 1
    assert results["acc/top1"] == pytest.approx(2 / 4)
    assert results["acc/mean1"] == pytest.approx((1 + 1 / 2 + 0) / 3)


def test_without_bad_videos_nothing_changes():
    samples = [right(0), right(1), sample(1, 5.0 * torch.eye(3)[2])]
    plain = Evaluator([ACCURACY])
    plain.process(samples)
    assert evaluate([ACCURACY], samples) == plain.evaluate(3)


def test_several_tasks():
    def pair(bad=None):
        scores = {"noun": torch.tensor([9.0, 0.0]), "verb": torch.tensor([0.0, 9.0, 0.0])}
        return sample(torch.tensor([0, 1]), scores, bad)

    metric = dict(type="mmvidformer.MultiTaskAccuracy", topk=(1, 3))
    results = evaluate([metric], [pair(), pair("x.mp4")])
    for name in ("noun/top1", "verb/top3", "action/top1"):
        assert results[name] == 0.5


def test_a_sample_that_fills_up_the_last_batch_is_not_counted():
    results = evaluate([ACCURACY], [right(0), right(1, "b.mp4"), right(0, "a.mp4")], size=2)
    assert results["bad_videos"] == 1
    assert results["acc/top1"] == 0.5


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("bad", [{1}, {0, 4}, {6}, {1, 3, 5}])
def test_processes_agree_whoever_has_the_bad_ones(monkeypatch, world, bad):
    """Each process's samples are dealt out and gathered as MMEngine does it."""
    from itertools import zip_longest

    from mmengine.evaluator import metric as module

    from mmvidformer.engine import bad_videos

    size = 7
    labels = [number % 3 for number in range(size)]
    wrong = {2}
    padded = [*range(size), *range(-size % world)]

    def one(number):
        label = labels[number]
        scores = torch.eye(3)[(label + 1) % 3 if number in wrong else label]
        return sample(label, scores, f"{number}.mp4" if number in bad else None)

    evaluators = []
    for rank in range(world):
        evaluators.append(BadVideoEvaluator(Evaluator([ACCURACY])))
        evaluators[-1].process([one(number) for number in padded[rank::world]])

    dummy = {"pred": torch.eye(3)[0].numpy(), "label": 0}
    gathered = []  # what each process hands to the others
    for rank, evaluator in enumerate(evaluators):
        monkeypatch.setattr(bad_videos, "get_dist_info", lambda rank=rank: (rank, world))
        counted: list[int] = []
        monkeypatch.setattr(
            bad_videos, "all_gather_object", lambda own, c=counted: c.append(own) or [9]
        )
        monkeypatch.setattr(
            module,
            "collect_results",
            lambda part, size, *a, **k: gathered.append(list(part)) or [dummy],
        )
        assert evaluator.evaluate(size)["bad_videos"] == 9
        assert counted == [len(bad & {*range(rank, size, world)})]
    joined = [r for row in zip_longest(*gathered) for r in row if r is not None]
    hits = sum(int(r["pred"].argmax() == r["label"]) for r in joined[:size])
    assert hits == size - len(bad | wrong)


def test_the_dump_has_all_samples_and_their_flags(tmp_path):
    dump = dict(type="DumpResults", out_file_path=str(tmp_path / "scores.pkl"))
    evaluate([ACCURACY, dump], [right(0), right(1, "b.mp4")])
    dumped = pickle.loads((tmp_path / "scores.pkl").read_bytes())
    assert [d.get("bad_path") for d in dumped] == [None, "b.mp4"]
    assert dumped[1]["pred_score"].tolist() == [0, -torch.inf, 0]


def test_saved_scores_keep_bad_videos_apart(tmp_path):
    """The file has a row for each sample, in order."""
    path = tmp_path / "scores.npz"
    save = dict(type="mmvidformer.SaveScores", path=str(path))
    evaluate([ACCURACY, save], [right(0), right(1, "b.mp4"), right(2)])
    with np.load(path) as file:
        assert file["labels"].tolist() == [0, 1, 2]
        assert file["bad_videos"].tolist() == [False, True, False]
        assert file["scores"].tolist() == [[5, 0, 0], [0, -np.inf, 0], [0, 0, 5]]


def test_every_view_of_a_bad_video_is_wrong(tmp_path):
    path = tmp_path / "scores.npz"
    save = dict(type="mmvidformer.SaveScores", path=str(path))
    evaluate([save], [sample(1, torch.ones(2, 3)), sample(2, torch.ones(2, 3), "b.mp4")])
    with np.load(path) as file:
        assert file["scores"][1].tolist() == [[0, 0, -np.inf]] * 2

"""Metrics with videos that could not be read."""

import pickle

import numpy as np
import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.evaluator import BaseMetric, Evaluator
from mmengine.registry import DefaultScope
from mmengine.structures import InstanceData
from torch import distributed

from mmvidformer.errors import UserError
from mmvidformer.tasks import evaluator as bad_videos
from mmvidformer.tasks.evaluator import BadVideoEvaluator
from tests.engine.toys import run_group


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
    evaluator = BadVideoEvaluator(metrics)
    for one in samples:
        evaluator.process([one])
    return evaluator.evaluate(len(samples) if size is None else size)


LOWEST = torch.finfo(torch.float).min
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


def part_of_a_rank(size, bad):
    """Evaluate every second sample as MMEngine's sampler deals them, with repeated ones."""
    rank = distributed.get_rank()
    numbers = [*range(size), *range(-size % 2)][rank::2]
    with DefaultScope.overwrite_default_scope("mmaction"):
        samples = [right(n % 3, f"{n}.mp4" if n in bad else None) for n in numbers]
        return evaluate([ACCURACY], samples, size)


def test_processes_count_repeated_samples_once(tmp_path):
    """Sample 0 fills the part of the second process, and is bad."""
    for results in run_group(2, part_of_a_rank, tmp_path / "run", (7, {0, 3, 6})):
        assert results["bad_videos"] == 3
        assert results["acc/top1"] == pytest.approx(4 / 7)


def test_what_is_no_flagged_sample_is_passed_on():
    """MMAction2's clip_feature_extraction gives tensors and dictionaries, and AVA has boxes."""
    seen = []

    class Keep(BaseMetric):
        default_prefix = "keep"

        def process(self, data_batch, data_samples):
            seen.extend(data_samples)
            self.results += data_samples

        def compute_metrics(self, results):
            return {"count": len(results)}

    boxes = ActionDataSample(gt_instances=InstanceData(bboxes=torch.ones(1, 4)))
    features = [torch.ones(3), {"feats": torch.ones(2)}, ["text"], boxes]
    assert evaluate([Keep()], features) == {"keep/count": 4}
    assert seen[0] is features[0] and seen[1] is features[1] and seen[2] is features[2]
    assert torch.equal(seen[3]["gt_instances"]["bboxes"], torch.ones(1, 4))


def test_dumped_predictions_can_be_evaluated():
    dumped = [one.to_dict() for one in (right(0), right(1, "b.mp4"), right(2))]
    evaluator = BadVideoEvaluator([ACCURACY])
    results = evaluator.offline_evaluate(dumped, chunk_size=2)
    assert results["bad_videos"] == 1 and results["acc/top1"] == pytest.approx(2 / 3)
    assert evaluator.offline_evaluate(dumped[:1]) == Evaluator([ACCURACY]).offline_evaluate(
        dumped[:1]
    )


def test_the_log_names_them(monkeypatch):
    logged = []
    monkeypatch.setattr(bad_videos, "print_log", lambda message, **_: logged.append(message))
    evaluate([ACCURACY], [right(0, "a.mp4"), right(1)])
    assert logged == ["1 of 2 samples could not be read and count as wrong:\na.mp4: cut off"]


def test_a_multi_label_video_is_wrong_in_all_its_classes():
    precision = dict(type="AccMetric", metric_list=("mean_average_precision",))
    labels = torch.tensor([[1, 1, 0], [0, 0, 1], [1, 0, 0]])
    samples = [sample(label, label.float()) for label in labels]
    assert evaluate([precision], samples)["acc/mean_average_precision"] == 1
    samples[0].set_metainfo({"bad_video": "cut off", "bad_path": "a.mp4"})
    # By class: ranks 1 and 3 of the videos are right, rank 3, rank 1.
    expected = ((1 + 2 / 3) / 2 + 1 / 3 + 1) / 3
    assert evaluate([precision], samples)["acc/mean_average_precision"] == pytest.approx(expected)


def test_one_label_of_several_scores():
    """As MMAction2's RGBPoseConv3D gives them; the last class must not win."""
    scores = {"rgb": torch.eye(3)[2], "pose": torch.eye(3)[2]}
    results = evaluate([ACCURACY], [sample(2, scores, "b.mp4")])
    assert results["acc/rgb_top1"] == results["acc/pose_top1"] == 0


def test_the_dump_has_all_samples_and_their_flags(tmp_path):
    dump = dict(type="DumpResults", out_file_path=str(tmp_path / "scores.pkl"))
    evaluate([ACCURACY, dump], [right(0), right(1, "b.mp4")])
    dumped = pickle.loads((tmp_path / "scores.pkl").read_bytes())
    assert [d.get("bad_path") for d in dumped] == [None, "b.mp4"]
    assert dumped[1]["pred_score"].tolist() == [0, LOWEST, 0]


def test_saved_scores_keep_bad_videos_apart(tmp_path):
    """The file has a row for each sample, in order."""
    path = tmp_path / "scores.npz"
    save = dict(type="mmvidformer.SaveScores", path=str(path))
    samples = [right(0), right(1, "b.mp4"), right(2)]
    for number, known in enumerate(samples):
        known.set_metainfo(dict(video_path=f"{number}.mp4"))
    evaluate([ACCURACY, save], samples)
    with np.load(path) as file:
        assert file["videos"].tolist() == ["0.mp4", "1.mp4", "2.mp4"]
        assert file["labels"].tolist() == [0, 1, 2]
        assert file["bad_videos"].tolist() == [False, True, False]
        assert file["scores"].tolist() == [[5, 0, 0], [0, LOWEST, 0], [0, 0, 5]]


def test_every_view_of_a_bad_video_is_wrong(tmp_path):
    path = tmp_path / "scores.npz"
    save = dict(type="mmvidformer.SaveScores", path=str(path))
    evaluate([save], [sample(1, torch.ones(2, 3)), sample(2, torch.ones(2, 3), "b.mp4")])
    with np.load(path) as file:
        assert file["scores"][1].tolist() == [[0, 0, LOWEST]] * 2


def test_files_have_the_answer_of_the_metric(tmp_path):
    """Here that of values, whose labels are no classes; in any order."""
    save = dict(type="mmvidformer.SaveScores", path=str(tmp_path / "values.npz"))
    samples = [sample(torch.tensor([x]), torch.tensor([x]), bad) for x, bad in
               ((1.5, None), (2.5, "b.mp4"), (3.5, None))]  # fmt: skip
    evaluate([save, dict(type="mmvidformer.NumberMetric")], samples)
    with np.load(tmp_path / "values.npz") as file:
        np.testing.assert_array_equal(file["scores"], [[1.5], [np.nan], [3.5]])
        assert file["labels"].tolist() == [1.5, 2.5, 3.5]


def test_a_bad_video_is_not_in_a_confusion_matrix(tmp_path):
    """Neither true nor found; a file beside it has the scores of a class."""
    save = dict(type="mmvidformer.SaveScores", path=str(tmp_path / "scores.npz"))
    samples = [right(0), right(1, "b.mp4"), right(2)]
    results = evaluate([dict(type="ConfusionMatrix"), save], samples)
    matrix = results["confusion_matrix/result"]
    assert matrix.tolist() == torch.diag(torch.tensor([1, 0, 1])).tolist()
    with np.load(tmp_path / "scores.npz") as file:
        assert file["scores"][1].tolist() == [0, LOWEST, 0]


class OwnMetric(BaseMetric):
    """A metric of a user: the share of long answers."""

    default_prefix = "own"

    def process(self, data_batch, data_samples):
        self.results += [float(len(one["text"]) > 3) for one in data_samples]

    def compute_metrics(self, results):
        return {"long": sum(results) / len(results)}


class OwnMetricWithWorst(OwnMetric):
    """The same, which says what a bad video counts as."""

    def worst(self, sample):
        return {**sample, "text": ""}


def test_a_metric_that_does_not_know_bad_videos_ends_the_run():
    good, bad = ActionDataSample(), ActionDataSample()
    good.set_metainfo({"text": "hello"})
    bad.set_metainfo({"text": "hello", "bad_video": "cut off", "bad_path": "b.mp4"})
    assert evaluate([OwnMetric()], [good]) == {"own/long": 1}
    with pytest.raises(UserError, match=r"^b\.mp4: cut off; OwnMetric has no method worst"):
        evaluate([ACCURACY, OwnMetric()], [sample(1, torch.eye(3)[1], "b.mp4")])
    results = evaluate([OwnMetricWithWorst()], [good, bad])
    assert results == {"own/long": 0.5, "bad_videos": 1}


def test_the_log_says_that_numbers_are_left_out(monkeypatch):
    logged = []
    monkeypatch.setattr(bad_videos, "print_log", lambda message, **_: logged.append(message))
    values = [sample(torch.tensor([x]), torch.tensor([x])) for x in (1.5, 2.5, 3.5)]
    values[1].set_metainfo({"bad_video": "cut off", "bad_path": "b.mp4"})
    results = evaluate([dict(type="mmvidformer.NumberMetric")], values)
    assert results["number/left_out"] == results["bad_videos"] == 1
    assert logged == ["1 of 3 samples could not be read and are left out:\nb.mp4: cut off"]

"""What a video counts as that cannot be read, for the metric of each task."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.evaluator import Evaluator
from mmengine.registry import DefaultScope
from mmengine.structures import InstanceData
from torch import distributed

from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.tasks.evaluator import BadVideoEvaluator
from mmvidformer.video.errors import BadVideo
from tests.engine.toys import run_group

COUNT = 5  # videos


@pytest.fixture(autouse=True)
def scope():
    with DefaultScope.overwrite_default_scope("mmaction"):
        yield


@dataclass
class Task:
    """A metric, what is annotated of a video, what its file tells, and the right answer."""

    metric: dict
    annotation: Callable[[int], dict]
    answer: Callable[[int], dict]
    facts: Callable[[int], dict] = lambda number: {}
    shares: tuple[str, ...] = ()  # results that are 1 if all is right
    others: Callable[[set], dict] = lambda bad: {}  # further results, by the bad videos
    classes: tuple[str, ...] = ("a", "b", "c")


def one_of(label: int, count: int = 3) -> torch.Tensor:
    return 5.0 * torch.eye(count)[label]


def instances(**values: list) -> dict:
    return {"pred_instances": InstanceData(**{k: torch.tensor(v) for k, v in values.items()})}


def labels(metric: dict, count: int) -> Task:
    """Video 0 alone has the first class, and the last video the second one."""
    positive = [0, COUNT - 1][:count]
    label = lambda i: torch.tensor([float(i == video) for video in positive])  # noqa: E731

    def others(bad: set) -> dict:
        """Of a bad video, the class is found last; a bad one without it changes nothing."""
        precisions = [1 / COUNT if video in bad else 1 for video in positive]
        return {"acc/mean_average_precision": np.mean(precisions)}

    return Task(
        metric,
        lambda i: dict(label=label(i)),
        lambda i: dict(pred_score=label(i) - i / 100),
        others=others,
    )


def number(columns: int) -> Task:
    names = [f"mae_{name}" for name in "abc"[:columns]] if columns > 1 else []
    perfect = {"number/r2": 1, **{f"number/{name}": 0 for name in ("mae", *names)}}
    return Task(
        dict(type="mmvidformer.NumberMetric"),
        lambda i: dict(label=torch.arange(columns) + 10.5 * i),
        lambda i: dict(pred_score=torch.arange(columns) + 10.5 * i),
        others=lambda bad: perfect | ({"number/left_out": len(bad)} if bad else {}),
        classes=("a", "b", "c")[:columns],
    )


TASKS = {
    "classes": Task(
        dict(type="AccMetric", metric_options=dict(top_k_accuracy=dict(topk=(1, 2)))),
        lambda i: dict(label=1),
        lambda i: dict(pred_score=one_of(1)),
        shares=("acc/top1", "acc/top2"),
    ),
    "labels": labels(dict(type="AccMetric", metric_list=("mean_average_precision",)), 2),
    "labels, own metric": labels(dict(type="mmvidformer.LabelsMetric"), 2),
    "labels of one class": labels(dict(type="mmvidformer.LabelsMetric"), 1),
    "number": number(1),
    "numbers": number(3),
    # In class 0, which the lowest scores name; the videos of other rates last as long.
    "frames": Task(
        dict(type="mmvidformer.FramesMetric"),
        lambda i: dict(spans=[(0.0, 1.0, 0), (2.0, 4.0, 0)], background=-1),
        lambda i: dict(pred_score=one_of(torch.zeros(40, dtype=int)), step=1.0),
        lambda i: dict(total_frames=40, avg_fps=10.0),
        shares=("frames/accuracy", "frames/edit"),
    ),
    "segments": Task(
        dict(type="mmvidformer.SegmentsMetric", ious=(0.5,)),
        lambda i: dict(spans=[(0.0, 10.0, 1)], background=-1),
        lambda i: instances(segments=[[0.0, 10.0]], labels=[1], scores=[0.9]),
        shares=("segments/mAP", "segments/mAP@50"),
    ),
    "moments": Task(
        dict(type="mmvidformer.MomentsMetric", tolerances=(1,)),
        lambda i: dict(spans=[(3.0, 3.0, 0)], background=-1),
        lambda i: instances(segments=[[3.0, 3.0]], labels=[0], scores=[0.9]),
        others=lambda bad: {"moments/mAP": (int(10 * (COUNT - len(bad)) / COUNT) + 1) / 11},
        classes=("a",),
    ),
    "boxes": Task(
        dict(type="mmvidformer.BoxesMetric", exclude_file=None, num_classes=2, action_thr=0.0),
        lambda i: dict(video_id=f"v{i}", timestamp=902),
        lambda i: instances(bboxes=[[0.1, 0.1, 0.9, 0.9]], scores=[[0.0, 0.9]]),
        shares=("mAP/overall",),
    ),
    "several heads": Task(
        dict(type="mmvidformer.MultiTaskAccuracy", topk=(1, 4)),
        lambda i: dict(label=np.array([0, 1])),
        lambda i: dict(pred_score={"noun": one_of(0), "verb": one_of(1)}),
        shares=tuple(f"{task}/top{k}" for task in ("noun", "verb", "action") for k in (1, 4))
        + ("noun/mean_class", "verb/mean_class"),
    ),
    "anticipation": Task(
        dict(type="mmvidformer.AnticipationMetric", topk=(1, 4), recall_k=4),
        lambda i: dict(label=np.array([0, 0, 0]), narration_id=f"P01_{i}"),
        lambda i: dict(
            pred_score={task: one_of(0).expand(2, 3) for task in ("verb", "noun", "action")}
        ),
        shares=tuple(
            f"{task}/{name}_{time}s"
            for task in ("verb", "noun", "action")
            for name in ("top1", "top4", "recall4")
            for time in ("0.25", "0.50")
        ),
    ),
}


class Videos:
    """The videos of a task, some of which cannot be read."""

    test_mode, metainfo = True, {}

    def __init__(self, task: Task, bad: set[int]) -> None:
        self.task, self.bad = task, bad

    def __len__(self) -> int:
        return COUNT

    def get_data_info(self, idx: int) -> dict:
        return self.task.annotation(idx)

    def __getitem__(self, idx: int) -> dict:
        if idx in self.bad:
            raise BadVideo(f"{idx}.mp4", "cut off")
        info = self.task.annotation(idx) | self.task.facts(idx)
        sample = ActionDataSample(metainfo={k: v for k, v in info.items() if k != "label"})
        if "label" in info:
            sample.set_gt_label(info["label"])
        return {"inputs": torch.tensor(idx), "data_samples": sample}


def predictions(task: Task, bad: set[int], numbers: range | list[int] = range(COUNT)) -> list:
    """Data samples with the right answer for the video that was in fact read."""
    dataset = SafeDataset(Videos(task, bad), max_bad_share=1.0)
    samples = []
    for idx in numbers:
        batch = dataset[idx]
        sample, answer = batch["data_samples"], task.answer(int(batch["inputs"]))
        sample.set_metainfo({"step": answer.pop("step", 1.0)})
        for name, value in answer.items():
            sample.set_field(value, name)
        samples.append(sample)
    return samples


def all_bad(task: Task) -> list:
    """Predictions of which none is of the video; a dataset would end the run."""
    return [predictions(task, {idx}, [idx])[0] for idx in range(COUNT)]


def metric_of(task: Task, folder: Path) -> dict:
    """The config of the metric; that of boxes needs files."""
    if task is not TASKS["boxes"]:
        return task.metric
    rows = (f"v{i},902,0.1,0.1,0.9,0.9,1,0\n" for i in range(COUNT))
    (folder / "truth.csv").write_text("".join(rows))
    (folder / "labels.pbtxt").write_text('item {\n  name: "a"\n  id: 1\n}\n')
    files = dict(ann_file=str(folder / "truth.csv"), label_file=str(folder / "labels.pbtxt"))
    return {**task.metric, **files}


def evaluate(task: Task, samples: list, folder: Path, *files: dict) -> dict[str, float]:
    evaluator = BadVideoEvaluator([metric_of(task, folder), *files])
    evaluator.dataset_meta = {"classes": task.classes, "discarded": [], "actions": []}
    evaluator.process(samples[:2])
    evaluator.process(samples[2:])
    return evaluator.evaluate(COUNT)


def expected(task: Task, bad: set[int]) -> dict[str, float]:
    """Results with some bad videos; all others are right."""
    shares = dict.fromkeys(task.shares, (COUNT - len(bad)) / COUNT)
    return shares | task.others(bad) | ({"bad_videos": len(bad)} if bad else {})


def known(results: dict, task: Task, bad: set[int]) -> dict:
    """The results that ``expected`` knows; no other is about bad videos."""
    wanted = expected(task, bad)
    assert not {name for name in results if "bad" in name or "left" in name} - {*wanted}
    return {name: results[name] for name in wanted}


@pytest.mark.parametrize("bad", [set(), {0}, {4}, {1, 2}], ids=str)
@pytest.mark.parametrize("name", TASKS)
def test_a_bad_video_has_the_worst_answer(name, bad, tmp_path) -> None:
    task = TASKS[name]
    results = evaluate(task, predictions(task, bad), tmp_path)
    assert known(results, task, bad) == pytest.approx(expected(task, bad), abs=1e-6)


def part_of_a_rank(names: list[str], bad_sets: list[set[int]], folder: str) -> list[dict]:
    """Evaluate every second video, as MMEngine's sampler deals them: the first one fills up."""
    numbers = [*range(COUNT), 0][distributed.get_rank() :: 2]
    results = []
    with DefaultScope.overwrite_default_scope("mmaction"):
        for bad in bad_sets:
            for name in names:
                task = TASKS[name]
                found = evaluate(task, predictions(task, bad, numbers), Path(folder))
                results.append({"bad": bad, "name": name, "found": known(found, task, bad)})
    return results


@pytest.mark.parametrize(
    "names",
    [
        [name for name in TASKS if name != "boxes"],
        pytest.param(["boxes"], marks=pytest.mark.slow),  # starts a process for each core
    ],
    ids=["tasks", "boxes"],
)
def test_two_processes_have_the_results_of_one(names, tmp_path) -> None:
    """Also if a bad video fills up the last batch, or stands before it."""
    options = names, [{0}, {3, 4}], str(tmp_path)
    for results in run_group(2, part_of_a_rank, tmp_path / "run", options):
        assert len(results) == 2 * len(names)
        for result in results:
            wanted = expected(TASKS[result["name"]], result["bad"])
            assert result["found"] == pytest.approx(wanted, abs=1e-6), result


@pytest.mark.parametrize("name", TASKS)
def test_a_dump_has_the_same_results(name, tmp_path) -> None:
    """MMEngine's own evaluator knows nothing of bad videos, and nothing of the other is there."""
    task, path = TASKS[name], tmp_path / "dump.pkl"
    results = evaluate(
        task, predictions(task, {1}), tmp_path, dict(type="DumpResults", out_file_path=str(path))
    )
    dumped = pickle.loads(path.read_bytes())
    assert [sample.get("bad_path") for sample in dumped] == [None, "1.mp4", None, None, None]
    assert not {"total_frames", "avg_fps", "step"} & {*dumped[1]}
    plain = Evaluator([metric_of(task, tmp_path)])
    plain.dataset_meta = {"classes": task.classes, "discarded": [], "actions": []}
    for evaluator in (plain, BadVideoEvaluator(plain.metrics)):
        again = evaluator.offline_evaluate(dumped, chunk_size=2)
        assert {"bad_videos": 1, **again} == pytest.approx(results, nan_ok=True)


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.shares])
def test_if_all_are_bad_nothing_is_right(name, tmp_path) -> None:
    task, bad = TASKS[name], {*range(COUNT)}
    assert known(evaluate(task, all_bad(task), tmp_path), task, bad) == expected(task, bad)


def test_if_all_are_bad_numbers_have_no_error(tmp_path) -> None:
    found = evaluate(TASKS["number"], all_bad(TASKS["number"]), tmp_path)
    assert found == {"number/left_out": COUNT, "bad_videos": COUNT}

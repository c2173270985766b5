"""Metrics on the files of ``official.py``, and what the official evaluations gave for them."""

import csv
import json
import multiprocessing

import pytest
import torch
from mmengine.structures import InstanceData

from mmvidformer.data.importers import open_annotations
from mmvidformer.tasks.datasets import SpanDataset
from mmvidformer.tasks.frames_metric import FramesMetric, list_runs
from mmvidformer.tasks.lists import split_annotations
from mmvidformer.tasks.metrics import BoxesMetric, SegmentsMetric
from tests.tasks import official


def test_segments_as_activitynet(tiny_videos, tmp_path) -> None:
    truth, results = official.segments()
    for name in truth["database"]:
        (tmp_path / f"{name}.mp4").symlink_to(tiny_videos.root / "val_0.mp4")
        truth["database"][name]["subset"] = "training"
    file = tmp_path / "truth.json"
    file.write_text(json.dumps(truth))
    lists = split_annotations(open_annotations(file), "segments", tmp_path / "lists", check=False)
    names = list(lists.classes)
    options = dict(overlap=True, metainfo=dict(classes=names))
    dataset = SpanDataset(str(lists.root / "train.csv"), [], **options)
    metric = SegmentsMetric()
    for i in range(len(dataset)):
        info = dataset.get_data_info(i)
        rows = results["results"][info["filename"].split("/")[-1].removesuffix(".mp4")]
        found = dict(
            segments=torch.tensor([one["segment"] for one in rows]).reshape(-1, 2),
            labels=torch.tensor([names.index(one["label"]) for one in rows]),
            scores=torch.tensor([one["score"] for one in rows]),
        )
        metric.process(None, [{"spans": info["spans"], "pred_instances": found}])
    each = [0.46457251, 0.43102273, 0.41387987, 0.36671717, 0.25265152]
    expected = {
        f"segments/mAP@{iou}": value for iou, value in zip(range(30, 80, 10), each, strict=True)
    }
    expected["segments/mAP"] = 0.3857687590
    assert metric.evaluate(len(dataset)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("many", [1, 1000])
def test_boxes_as_ava(many: int, tmp_path, monkeypatch) -> None:
    """No process is forked or left, and no file is written here."""
    before = {*multiprocessing.active_children()}
    monkeypatch.setattr("mmvidformer.repairs.ava_pool.MANY", many)
    monkeypatch.delattr(multiprocessing, "Pool")
    official.main(tmp_path)
    options = dict(exclude_file=None, action_thr=0.0, num_classes=5)
    options |= dict(label_file=str(tmp_path / "labels.pbtxt"))
    metric = BoxesMetric(str(tmp_path / "truth.csv"), **options)
    moments: dict = {}
    for video, second, *box, label, score in csv.reader((tmp_path / "found.csv").open()):
        boxes = moments.setdefault((video, int(second)), {})
        scores = boxes.setdefault(tuple(map(float, box)), torch.zeros(5))
        scores[int(label)] = float(score)
    for (video, second), boxes in moments.items():
        found = InstanceData(
            bboxes=torch.tensor(list(boxes)), scores=torch.stack([*boxes.values()])
        )
        sample = dict(video_id=video, timestamp=second, pred_instances=found)
        metric.process(None, [sample])
    monkeypatch.chdir("/proc")  # where nobody can write
    found = metric.evaluate(len(moments))["mAP/overall"]
    assert found == pytest.approx(0.8560442886, abs=1e-6)
    assert {*multiprocessing.active_children()} <= before


# Accuracy, edit score and F1 at 10, 25 and 50.
FRAMES = {
    "background": (0.7824803150, 0.5643939394, 0.6930693069, 0.6534653465, 0.5148514851),
    "background_and_gaps": (0.8019153226, 0.5882820883, 0.6929824561, 0.6842105263, 0.5789473684),
    "no_background": (0.8362753751, 0.5949494949, 0.7169811321, 0.7075471698, 0.5849056604),
    "no_background_but_gaps": (
        *(0.8065326633, 0.6616803336),
        *(0.7937743191, 0.7782101167, 0.6536964981),
    ),
}


@pytest.mark.parametrize("case", FRAMES)
def test_frames_as_ms_tcn(case) -> None:
    names, gaps = official.FRAMES[case]
    # Where all frames have a class, that of frames in no span may be the background.
    background = -1 if gaps else len(official.NAMES)
    metric = FramesMetric()
    metric.dataset_meta = {"classes": names}
    videos = official.frames(case)
    for found, truth in videos:
        spans = [(p.start / 10, p.end / 10, p.label) for p in list_runs(truth, [-1, background])]
        sample = dict(total_frames=len(truth), avg_fps=10.0, step=1.0)
        sample |= dict(background=background, spans=spans)
        scores = torch.eye(len(names))[torch.from_numpy(found)]
        metric.process(None, [{**sample, "pred_score": scores}])
    names = ("accuracy", "edit", "f1@10", "f1@25", "f1@50")
    expected = {f"frames/{name}": x for name, x in zip(names, FRAMES[case], strict=True)}
    assert metric.evaluate(len(videos)) == pytest.approx(expected, abs=1e-9)

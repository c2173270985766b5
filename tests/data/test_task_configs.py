"""Dataset configs of anticipation and early recognition, on tiny data where they look for it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import Runner

from mmvidformer.registry import METRICS

BASES = Path(__file__).parents[2] / "configs" / "_base_" / "datasets"


@pytest.fixture(autouse=True)
def scope(prediction_data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(prediction_data)
    with DefaultScope.overwrite_default_scope("mmaction"):
        yield


def batches(name: str) -> tuple[Config, dict[str, dict]]:
    """First batch of each loader, in this process, of three samples."""
    config = Config.fromfile(BASES / f"{name}.py")
    found = {}
    for split in ("train", "val", "test"):
        loader = dict(config[f"{split}_dataloader"])
        loader.update(batch_size=3, num_workers=0, persistent_workers=False, timeout=0)
        loader["sampler"] = {"type": "DefaultSampler", "shuffle": False}
        found[split] = next(iter(Runner.build_dataloader(loader)))
    return config, found


def metric_values(config: Config, samples: list, actions: list, discarded: list) -> dict:
    """Results of the config's metric when the right class always scores best."""
    metric = METRICS.build(config.val_evaluator)
    metric.dataset_meta = {"actions": actions, "discarded": discarded}
    outputs = []
    for sample in samples:
        scores = {
            task: torch.eye(6)[label].expand(8, -1)
            for task, label in zip(("verb", "noun", "action"), sample.gt_label, strict=True)
        }
        outputs.append({**sample.to_dict(), "pred_score": scores})
    metric.process(None, outputs)
    return metric.evaluate(len(outputs))


@pytest.mark.parametrize("number", [55, 100])
def test_epic_kitchens_anticipation(number: int) -> None:
    config, found = batches(f"epic_kitchens{number}_anticipation")
    for split, batch in found.items():
        assert [tuple(x.shape) for x in batch["inputs"]] == [(1, 3, 14, 256, 454)] * 2
        labels = [sample.gt_label.tolist() for sample in batch["data_samples"]]
        assert labels == [[0, 1, 0], [1, 1, 1]]
        if split != "train":  # frames 5 and 12 before frame 20, 5, 13 and 20 before 28
            levels = batch["inputs"][1][0].float().mean((0, 2, 3)) / 8
            assert levels.round().tolist()[-4:] == [5, 5, 13, 20]
    left_out = [{"narration_id": "P01_01_0", "gt_label": np.array([0, 1, 0])}]
    values = metric_values(config, found["val"]["data_samples"], [(0, 1), (1, 1)], left_out)
    if number == 55:
        assert values["action/recall5_1.00s"] == values["verb/top1_2.00s"] == 1
    else:
        assert values["action/recall5_1.00s"] == (0.5 + 1) / 2
        assert values["verb/recall5_unseen_1.00s"] == 0.5
        assert values["noun/recall5_tail_0.25s"] == 1


def test_something_something_early() -> None:
    """A quarter of 8, 16 and 24 frames at 12 per second, each twice."""
    _, found = batches("sthv2_early")
    for batch in found.values():
        shapes = [tuple(x.shape) for x in batch["inputs"]]
        assert shapes == [(1, 3, n, 224, 224) for n in (4, 8, 12)]
        assert [sample.gt_label.item() for sample in batch["data_samples"]] == [1, 0, 1]


def test_motion_early() -> None:
    _, found = batches("motion_early")
    for batch in found.values():
        lengths = [clip.shape[2] for clip in batch["inputs"]]
        shapes = [tuple(x.shape) for x in batch["inputs"]]
        assert shapes == [(1, 3, length, 32, 32) for length in lengths]
        assert all(4 <= length <= 7 for length in lengths)
        assert [sample.gt_label.item() for sample in batch["data_samples"]] == [0, 1, 2]


def test_motion_anticipation() -> None:
    config, found = batches("motion_anticipation")
    for batch in found.values():
        assert [tuple(x.shape) for x in batch["inputs"]] == [(1, 3, 14, 32, 32)] * 3
    samples = [sample for batch in found.values() for sample in batch["data_samples"]]
    samples = [sample for sample in samples if max(sample.gt_label) < 6]
    values = metric_values(config, samples, [], [])
    assert values["noun/recall1_0.25s"] == values["action/top1_2.00s"] == 1

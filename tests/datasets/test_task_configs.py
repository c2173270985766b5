"""Dataset configs of anticipation and early recognition, on tiny data where they look for it."""

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import Runner

from mmvidformer.datasets.motion_phases import PhasesSpec, make_phases
from mmvidformer.datasets.motion_render import Look
from mmvidformer.datasets.motion_sequences import SequencesSpec, make_sequences
from mmvidformer.datasets.motion_video import write_independent_frames
from mmvidformer.registry import METRICS

BASES = Path(__file__).parents[2] / "configs" / "_base_" / "datasets"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder, and the scope of MMAction2."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    with DefaultScope.overwrite_default_scope("mmaction"):
        yield tmp_path / "data"


def batches(name: str) -> tuple[Config, dict[str, dict]]:
    """First batch of each loader, in this process, of three samples."""
    config = Config.fromfile(BASES / f"{name}.py")
    found = {}
    for split in ("train", "val", "test"):
        loader = dict(config[f"{split}_dataloader"])
        loader.update(batch_size=3, num_workers=0, persistent_workers=False)
        loader["sampler"] = {"type": "DefaultSampler", "shuffle": False}
        found[split] = next(iter(Runner.build_dataloader(loader)))
    return config, found


def kitchen(root: Path) -> None:
    """Three actions in a video of 30 frames, one of them too early."""
    frames = root / "rgb_frames" / "P01_01"
    frames.mkdir(parents=True)
    for i in range(1, 31):
        cv2.imwrite(str(frames / f"frame_{i:010}.jpg"), np.full((25, 45, 3), 8 * i, np.uint8))
    for split in ("training", "validation"):
        rows = "P01_01_0,P01_01,2,4,0,1,0\nP01_01_1,P01_01,20,25,0,1,0\nP01_01_2,P01_01,28,30,1,1,1"
        (root / f"{split}.csv").write_text(rows + "\n")
    (root / "actions.csv").write_text("id,verb,noun,action\n0,0,1,take spoon\n1,1,1,put spoon\n")


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
def test_epic_kitchens_anticipation(here: Path, number: int) -> None:
    root = here / f"epic_kitchens{number}"
    kitchen(root)
    (root / "EPIC_many_shot_verbs.csv").write_text("verb_class,verb\n0,take\n")
    (root / "EPIC_many_shot_nouns.csv").write_text("noun_class,noun\n1,spoon\n")
    (root / "validation_unseen_participants_ids.csv").write_text("P01_01_0\nP01_01_1\n")
    for task in ("verbs", "nouns", "actions"):
        (root / f"validation_tail_{task}_ids.csv").write_text("P01_01_2\n")
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


def test_something_something_early(here: Path) -> None:
    root = here / "sthv2"
    (root / "videos").mkdir(parents=True)
    lines = []
    for i, frames in enumerate((8, 16, 24)):
        clip = np.full((frames, 128, 128, 3), 100, np.uint8)
        write_independent_frames(root / "videos" / f"{i}.mp4", clip, fps=12)
        lines.append(f"{i}.mp4 {93 + i % 2}\n")
    for split in ("train", "val"):
        (root / f"sthv2_{split}_list_videos.txt").write_text("".join(lines))
    (root / "early_classes.txt").write_text("94\n93\n")
    _, found = batches("sthv2_early")
    for batch in found.values():
        assert [tuple(x.shape) for x in batch["inputs"]] == [(1, 3, n, 224, 224) for n in (2, 4, 6)]
        assert [sample.length for sample in batch["data_samples"]] == [2, 4, 6]
        assert [sample.gt_label.item() for sample in batch["data_samples"]] == [1, 0, 1]


def test_motion_early(here: Path) -> None:
    make_phases(
        PhasesSpec(train=3, val=3, test=3, shortest=12, look=Look(frames=20)),
        here / "motion_phases",
    )
    _, found = batches("motion_early")
    for batch in found.values():
        lengths = [sample.length for sample in batch["data_samples"]]
        shapes = [tuple(x.shape) for x in batch["inputs"]]
        assert shapes == [(1, 3, length, 64, 64) for length in lengths]
        assert all(6 <= length <= 10 for length in lengths)
        assert [sample.gt_label.item() for sample in batch["data_samples"]] == [0, 1, 2]


def test_motion_anticipation(here: Path) -> None:
    make_sequences(SequencesSpec(train=1, val=1, test=1, actions=4), here / "motion_sequences")
    config, found = batches("motion_anticipation")
    for batch in found.values():
        assert [tuple(x.shape) for x in batch["inputs"]] == [(1, 3, 14, 64, 64)] * 3
    samples = [sample for batch in found.values() for sample in batch["data_samples"]]
    samples = [sample for sample in samples if max(sample.gt_label) < 6]
    values = metric_values(config, samples, [], [])
    assert values["noun/recall1_0.25s"] == values["action/top1_2.00s"] == 1

"""Recipes of several labels and of boxes; those of saved features are in tests/tasks."""

import pickle
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.dataset import pseudo_collate
from mmengine.hub import get_config as mmengine_config
from mmengine.registry import DefaultScope

from mmvidformer import get_config
from mmvidformer.config import load_config
from mmvidformer.config.shipped import config_folder
from mmvidformer.registry import DATASETS, METRICS, MODELS
from tests.tiny_configs import sample, shrink

MMACTION = "vit-base-p16_videomae-k400-pre_8xb8-16x4x1-20e-adamw_ava-kinetics-rgb.py"


@pytest.fixture(autouse=True)
def scope():
    with DefaultScope.overwrite_default_scope("mmaction"):
        yield


def test_charades(tiny_videos) -> None:
    torch.manual_seed(0)
    cfg = shrink(get_config("timesformer_b_charades"))
    for split in ("train", "val", "test"):
        dataset = cfg[f"{split}_dataloader"].dataset
        assert dataset.multi_class and dataset.num_classes == cfg.model.cls_head.num_classes == 157
    model, video = MODELS.build(cfg.model), tiny_videos.root / "val_0.mp4"
    label = torch.zeros(157).index_fill(0, torch.tensor([3, 90]), 1)
    batch = pseudo_collate([sample(cfg, "train_pipeline", video, label)] * 2)
    losses = model(**model.data_preprocessor(batch, training=True), mode="loss")
    assert losses["loss_cls"].isfinite()
    item = sample(cfg, "test_pipeline", video, label)
    assert len(item["inputs"]) == 30  # 10 x 3 views
    metric = METRICS.build(cfg.test_evaluator)
    with torch.no_grad():
        (found,) = model.eval().test_step(pseudo_collate([item]))
    metric.process(None, [found.to_dict()])
    assert 0 <= metric.evaluate(1)["acc/mean_average_precision"] <= 1


def write_ava() -> None:
    """A video of 70 frames, with a box at second 901 and another, found one.

    Frames of a clip are drawn around the second: up to the 61st for 16 frames, 4 apart.
    """
    frames, root = Path("data/ava/rawframes/video"), Path("data/ava/annotations")
    for folder in (frames, root):
        folder.mkdir(parents=True)
    for number in range(1, 71):
        picture = np.full((32, 48, 3), 3 * number, np.uint8)
        cv2.imwrite(str(frames / f"img_{number:05}.jpg"), picture)
    label = 'item {\n  name: "stand"\n  id: 12\n}\n'
    (root / "ava_action_list_v2.2_for_activitynet_2019.pbtxt").write_text(label)
    for split in ("train", "val"):
        (root / f"ava_{split}_v2.2.csv").write_text("video,0901,0.1,0.1,0.6,0.9,12,0\n")
        (root / f"ava_{split}_excluded_timestamps_v2.2.csv").touch()
    found = {"video,0901": np.array([[0.1, 0.2, 0.6, 0.9, 0.99]])}
    name = "ava_dense_proposals_val.FAIR.recall_93.9.pkl"
    (root / name).write_bytes(pickle.dumps(found))


@pytest.mark.parametrize(
    ("name", "frames", "scales"),
    [
        ("timesformer_b_ava22", 8, [dict(scale=(32, 32))] * 2),
        ("videomae_b_ava22", 16, [dict(scale_range=(40, 48)), dict(scale=(-1, 32))]),
    ],
)
def test_ava(name: str, frames: int, scales: list[dict], tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_ava()
    torch.manual_seed(0)
    cfg = get_config(name)
    small = dict(embed_dims=16, depth=1, num_heads=2)
    cfg.model.backbone.update(arch=small, img_size=32, init_from=None)
    cfg.model.cls_head.in_channels = 16
    sets = []
    for split, scale in zip(("train", "test"), scales, strict=True):
        dataset = cfg[f"{split}_dataloader"].dataset
        dataset.pipeline[2].update(scale)
        if dataset.pipeline[3].type == "RandomCrop":
            dataset.pipeline[3].size = 32
        sets.append(DATASETS.build(dataset))
    model = MODELS.build(cfg.model)
    batch = pseudo_collate([sets[0][0]])
    assert batch["inputs"][0].shape == (1, 3, frames, 32, 32)
    losses = model(**model.data_preprocessor(batch, training=True), mode="loss")
    losses["loss_cls"].backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)
    metric = METRICS.build(cfg.test_evaluator)
    with torch.no_grad():
        (found,) = model.eval().test_step(pseudo_collate([sets[1][0]]))
    box = torch.tensor([[0.1, 0.2, 0.6, 0.9]])  # the proposal
    torch.testing.assert_close(found.pred_instances.bboxes, box, atol=1e-6, rtol=0)
    metric.process(None, [found.to_dict()])
    assert metric.evaluate(1)["mAP/overall"] == pytest.approx(1)


def test_videomae_on_ava_has_the_values_of_mmaction2() -> None:
    theirs = mmengine_config(f"mmaction::detection/videomae/{MMACTION}")
    ours = get_config("videomae_b_ava22")
    for split in ("train", "val"):
        pipelines = [cfg[f"{split}_dataloader"].dataset.pipeline for cfg in (ours, theirs)]
        assert pipelines[0][:-2] == pipelines[1][:-2], split
    for cfg in (ours, theirs):
        cfg.optim_wrapper.optimizer.setdefault("betas", (0.9, 0.999))
    for part in ("optimizer", "clip_grad"):
        assert ours.optim_wrapper[part] == theirs.optim_wrapper[part]
    decay = theirs.optim_wrapper.paramwise_cfg.decay_rate
    assert ours.optim_wrapper.paramwise_cfg.layer_decay == decay
    defaults = dict(begin=0, by_epoch=True, eta_min=0)
    schedules = [[{**defaults, **part} for part in cfg.param_scheduler] for cfg in (ours, theirs)]
    assert schedules[0] == schedules[1]
    assert ours.train_cfg.max_epochs == theirs.train_cfg.max_epochs
    assert ours.auto_scale_lr == theirs.auto_scale_lr
    assert 8 * ours.train_dataloader.batch_size == ours.auto_scale_lr.base_batch_size
    backbone, head = theirs.model.backbone, theirs.model.roi_head
    assert ours.model.backbone.drop_path_rate == backbone.drop_path_rate
    assert ours.model.cls_head.roi_size == head.bbox_roi_extractor.output_size
    assert ours.model.cls_head.dropout_ratio == head.bbox_head.dropout_ratio
    assert [*ours.model.data_preprocessor.mean] == theirs.model.data_preprocessor.mean


@pytest.mark.parametrize("path", sorted(config_folder().glob("tasks/*.py")), ids=lambda p: p.stem)
def test_recipes_say_that_they_were_not_measured(path: Path) -> None:
    head = path.read_text().partition("_base_")[0].replace("\n# ", " ")
    assert "Not measured here." in head and f"mmvidformer train {path.stem}" in head
    assert load_config(path.stem).model == get_config(path.stem).model

"""Recipes of several labels and of boxes; those of saved features are in tests/tasks."""

import pickle
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.dataset import pseudo_collate
from mmengine.registry import DefaultScope

from mmvidformer import get_config
from mmvidformer.config import load_config
from mmvidformer.config.shipped import config_folder
from mmvidformer.registry import DATASETS, METRICS, MODELS
from tests.tiny_configs import sample, shrink


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
    """A video of 60 frames, with a box at second 901 and another, found one."""
    frames, root = Path("data/ava/rawframes/video"), Path("data/ava/annotations")
    for folder in (frames, root):
        folder.mkdir(parents=True)
    for number in range(1, 61):
        picture = np.full((32, 48, 3), 4 * number, np.uint8)
        cv2.imwrite(str(frames / f"img_{number:05}.jpg"), picture)
    label = 'item {\n  name: "stand"\n  id: 12\n}\n'
    (root / "ava_action_list_v2.2_for_activitynet_2019.pbtxt").write_text(label)
    for split in ("train", "val"):
        (root / f"ava_{split}_v2.2.csv").write_text("video,0901,0.1,0.1,0.6,0.9,12,0\n")
        (root / f"ava_{split}_excluded_timestamps_v2.2.csv").touch()
    found = {"video,0901": np.array([[0.1, 0.2, 0.6, 0.9, 0.99]])}
    name = "ava_dense_proposals_val.FAIR.recall_93.9.pkl"
    (root / name).write_bytes(pickle.dumps(found))


def test_ava(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_ava()
    torch.manual_seed(0)
    cfg = get_config("timesformer_b_ava22")
    small = dict(embed_dims=16, depth=1, num_heads=2)
    cfg.model.backbone.update(arch=small, img_size=32, init_from=None)
    cfg.model.cls_head.in_channels = 16
    sets = []
    for split in ("train", "test"):
        dataset = cfg[f"{split}_dataloader"].dataset
        dataset.pipeline[2].scale = (32, 32)
        sets.append(DATASETS.build(dataset))
    model = MODELS.build(cfg.model)
    batch = pseudo_collate([sets[0][0]])
    assert batch["inputs"][0].shape == (1, 3, 8, 32, 32)
    losses = model(**model.data_preprocessor(batch, training=True), mode="loss")
    assert losses["loss_cls"].isfinite()
    metric = METRICS.build(cfg.test_evaluator)
    with torch.no_grad():
        (found,) = model.eval().test_step(pseudo_collate([sets[1][0]]))
    box = torch.tensor([[0.1, 0.2, 0.6, 0.9]])  # the proposal
    torch.testing.assert_close(found.pred_instances.bboxes, box, atol=1e-6, rtol=0)
    metric.process(None, [found.to_dict()])
    assert metric.evaluate(1)["mAP/overall"] == pytest.approx(1)


@pytest.mark.parametrize("path", sorted(config_folder().glob("tasks/*.py")), ids=lambda p: p.stem)
def test_recipes_say_that_they_were_not_measured(path: Path) -> None:
    head = path.read_text().partition("_base_")[0].replace("\n# ", " ")
    assert "Not measured here." in head and f"mmvidformer train {path.stem}" in head
    assert load_config(path.stem).model == get_config(path.stem).model

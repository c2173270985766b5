"""The shipped models of both tasks, and a run with MMEngine's runner."""

import copy
from pathlib import Path

import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from torch import nn

from mmvidformer.config import config_folder
from mmvidformer.registry import MODELS

BASE = Path(config_folder()) / "_base_"


def recipe(name: str) -> Config:
    return Config.fromfile(BASE / "models" / f"{name}.py").model


def build(cfg: dict) -> nn.Module:
    with DefaultScope.overwrite_default_scope("mmaction"):
        return MODELS.build(cfg)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_early_recognition_has_the_papers_sizes() -> None:
    with torch.device("meta"):
        model = build(recipe("horst_early_recognition"))
        maps = model.backbone(torch.zeros(1, 3, 224, 224))
        output = model.neck(maps[:, None])[0]
    assert maps.shape == (1, 128, 56, 56)
    assert output.y.shape == (1, 1, 512, 14, 14)
    assert count(model.neck) == 1189318 + 4164454 + 16651942 + 19011238
    assert count(model.cls_head) == 512 * 41 + 41


@pytest.mark.parametrize("classifier", ["linear", "unrolling"])
def test_anticipation_has_the_papers_sizes(classifier: str) -> None:
    cfg = recipe("horst_anticipation")
    cfg.cls_head.classifier = classifier
    with torch.device("meta"):
        model = build(cfg)
        assert model.backbone(torch.zeros(1, 3, 256, 454)).shape == (1, 1024, 8, 14)
    assert count(model.neck) == 2 * 76033318
    head = model.cls_head.classifier
    sizes = {task: getattr(head, task).out_features for task in ("verb", "noun", "action")}
    assert sizes == {"verb": 125, "noun": 352, "action": 2513}
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained == count(model) - count(model.backbone)


def test_frames_become_bgr_minus_the_means() -> None:
    preprocess = build(recipe("horst_anticipation").data_preprocessor)
    color = torch.tensor([10, 20, 30], dtype=torch.uint8)
    clip = color[None, :, None, None, None].expand(1, 3, 14, 2, 2)
    data = {"inputs": [clip], "data_samples": [ActionDataSample()]}
    inputs = preprocess(data)["inputs"]
    assert inputs.shape == (1, 1, 3, 14, 2, 2)
    wanted = torch.tensor([30.0 - 104, 20 - 117, 10 - 128])
    torch.testing.assert_close(inputs, wanted[None, None, :, None, None, None].expand_as(inputs))


@pytest.mark.parametrize("name", ["horst_early_recognition", "horst_anticipation"])
def test_trains_with_the_runner_and_the_recipes_schedule(name: str, tmp_path: Path) -> None:
    """A tiny model on clips whose class is their brightness, for four epochs."""
    torch.manual_seed(0)
    model, schedule = recipe(name), Config.fromfile(BASE / "schedules" / "horst_50e.py")
    if name == "horst_anticipation":
        model.backbone = dict(type="torch.nn.Identity")
        model.cls_head.update(in_channels=8, tasks=dict(verb=2, noun=2, action=2))
        model.neck.update(in_channels=3, channels=[8, 8])
    else:
        model.backbone.channels = 8
        model.neck.update(in_channels=8, channels=[8, 8], strides=[1, 1])
        model.cls_head.update(in_channels=8, num_classes=2)
    model.cls_head.topk = (1,)
    items = []
    for i in range(8):
        sample, label = ActionDataSample(), i % 2
        sample.set_gt_label([label] * 3 if name == "horst_anticipation" else label)
        clip = torch.randint(0, 100, (1, 3, 3 + i % 3, 8, 8)) + 100 * label
        if name == "horst_anticipation":
            clip = torch.randint(0, 100, (1, 3, 14, 4, 4)) + 100 * label
        items.append({"inputs": clip.to(torch.uint8), "data_samples": sample})
    losses = []

    class Watch(nn.Module):
        """Wraps a model and records its losses."""

        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def train_step(self, data: object, optim_wrapper: object) -> dict:
            logged = self.inner.train_step(data, optim_wrapper)
            losses.append(logged["loss"].item())
            return logged

    schedule.optim_wrapper.optimizer.lr = 0.02
    schedule.param_scheduler[0].update(begin=3, end=4, T_max=1)
    with DefaultScope.overwrite_default_scope("mmaction"):
        runner = Runner(
            model=Watch(build(copy.deepcopy(model))),
            work_dir=str(tmp_path),
            train_dataloader=dict(
                dataset=items,
                batch_size=4,
                num_workers=0,
                sampler=dict(type="DefaultSampler", shuffle=False),
                collate_fn=dict(type="pseudo_collate"),
            ),
            train_cfg=dict(type="EpochBasedTrainLoop", max_epochs=4),
            optim_wrapper=schedule.optim_wrapper,
            param_scheduler=schedule.param_scheduler,
            default_scope="mmaction",
            default_hooks=dict(checkpoint=dict(type="CheckpointHook", interval=4)),
            experiment_name=name,
        )
        runner.train()
    assert len(losses) == 8
    assert losses[-1] < 0.8 * losses[0]
    saved = torch.load(tmp_path / "epoch_4.pth", weights_only=False)
    assert "lookahead_k" in saved["optimizer"]["param_groups"][0]

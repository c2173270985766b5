"""Rows of other people's models, in MMAction2's networks: sizes as printed, and two steps."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from mmengine.config import Config
from mmengine.dataset import Compose, pseudo_collate
from mmengine.registry import DefaultScope
from torch import nn

from lab.papers.rows import PublishedRow, find_published, list_rows
from lab.papers.summary import size_of
from mmvidformer.config import load_config
from mmvidformer.data.transforms import decode  # noqa: F401  registers what pipelines read with
from mmvidformer.registry import MODELS
from tests.paper_rows import of_others
from tests.tiny_data import TinyVideos

SIDE = 64  # pixels of the clips that models are trained on here


def config(row: PublishedRow) -> Config:
    """Its config, without weights that would be downloaded."""
    cfg = load_config(row.config, row.options)
    backbone = cfg.model.backbone
    for part in (backbone, backbone.get("slow_pathway") or {}):
        part.update({"pretrained": None} if "pretrained" in part else {})  # some require it
    return cfg


def build(cfg: Config) -> nn.Module:
    with DefaultScope.overwrite_default_scope("mmaction"):
        return MODELS.build(cfg.model)


def others() -> list[PublishedRow]:
    """A row of each of their models and samplings, whatever the data set."""
    found: dict[str, PublishedRow] = {}
    for row in list_rows():
        if row.runnable and of_others(row):
            cfg = load_config(row.config, row.options)
            pipeline = cfg.train_dataloader.dataset.pipeline
            found.setdefault(repr((cfg.model, pipeline)), row)
    return list(found.values())


# In millions, of the paper or of the model's own.
SIZES = [
    ("timesformer/table2/i3d_1440h", 28.0, 0.1),
    ("timesformer/table2/slowfast_3840h", 34.6, 0.1),
    ("feature_fixation/table1/slowfast", 53.3, 0.1),
    ("feature_fixation/table1/tsm", 42.9, 0.1),
    ("feature_fixation/table2_k400/x3d", 3.8, 0.1),
    ("timesformer/table5/slowfast", 59.9, 0.3),
    ("timesformer/table6/x3d", 9.7, 0.1),  # by the widths of MMAction2; printed are 11.0
]


@pytest.mark.parametrize(("name", "printed", "tolerance"), SIZES, ids=[row[0] for row in SIZES])
def test_sizes_are_as_printed(name: str, printed: float, tolerance: float) -> None:
    with torch.device("meta"):
        model = build(config(find_published(name)))
    size = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    assert size == pytest.approx(printed, abs=tolerance)
    assert size_of(find_published(name)) is None


@pytest.mark.parametrize(
    ("name", "epochs", "rate", "milestones"),
    [
        ("i3d_1440h", 118, 0.01, [44, 88]),
        ("slowfast_3840h", 118, 0.01, [44, 88]),
        ("i3d_444h", 36, 0.01, [14, 27]),
        ("slowfast_448h", 14, 0.01, [5, 10]),
    ],
)
def test_the_recipe_is_that_of_appendix_a(
    name: str, epochs: int, rate: float, milestones: Sequence[int]
) -> None:
    cfg = config(find_published(f"timesformer/table2/{name}"))
    optimizer = dict(type="SGD", lr=rate, momentum=0.9, weight_decay=1e-4)
    assert cfg.train_cfg.max_epochs == epochs
    assert cfg.optim_wrapper == {"optimizer": optimizer}
    assert [*cfg.param_scheduler[0].milestones] == [*milestones]
    assert cfg.auto_scale_lr.base_batch_size == 64
    assert cfg.model.cls_head.dropout_ratio == 0.5


def test_from_scratch_the_recipe_is_slowfasts() -> None:
    cfg = config(find_published("timesformer/table2/slowfast_6336h"))
    warmup, cosine = cfg.param_scheduler
    assert (cfg.train_cfg.max_epochs, cosine.T_max, warmup.end) == (196, 196, 34)
    assert cfg.optim_wrapper.optimizer.lr * warmup.start_factor == pytest.approx(0.01)


def shrink(batch: dict) -> dict:
    """Clips (..., H, W) of small frames; what the sizes of a network do not depend on."""
    inputs = []
    for clip in batch["inputs"]:
        small = F.interpolate(clip.flatten(0, -4).float(), (SIDE, SIDE)).to(clip.dtype)
        inputs.append(small.reshape(*clip.shape[:-2], SIDE, SIDE))
    return {**batch, "inputs": inputs}


@pytest.mark.slow
@pytest.mark.parametrize("row", others(), ids=lambda row: row.name)
def test_each_is_trained_for_two_steps(row: PublishedRow, tiny_videos: TinyVideos) -> None:
    """Its own pipeline reads clips; they are made small, but for MViT, whose size is fixed."""
    torch.manual_seed(0)
    cfg = config(row)
    with DefaultScope.overwrite_default_scope("mmaction"):
        pipeline = Compose([{**step} for step in cfg.train_dataloader.dataset.pipeline])
        paths = sorted(Path(tiny_videos.root).glob("train_*.mp4"))[:2]
        tasks = "tasks" in cfg.model.cls_head
        labels = [torch.tensor([i, i]).numpy() if tasks else i for i in range(2)]
        ends = {"segment": (0, 20)} if tasks else {}
        samples = [
            pipeline(
                dict(filename=str(path), label=label, start_index=0, modality="RGB", tar=-1, **ends)
            )
            for path, label in zip(paths, labels, strict=True)
        ]
    model = build(cfg).train()
    batch = pseudo_collate(samples)
    if cfg.model.backbone.type != "MViT":
        batch = shrink(batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(2):
        data = model.data_preprocessor({**batch}, training=True)
        losses = model(**data, mode="loss")
        loss = losses["loss_cls"]
        assert torch.isfinite(loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

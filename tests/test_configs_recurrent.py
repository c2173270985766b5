"""Configs of HORST and causal transformers: data, model and metric fit; HORST's recipe."""

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.evaluator import Evaluator
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope
from mmengine.runner import Runner

from lab.papers.rows import list_rows
from mmvidformer import get_config, list_models
from mmvidformer.registry import MODELS

NAMES = [name for name in list_models() if name.startswith(("horst_", "causal_"))]
# Rows of other layers and heads; all others are slow tests.
FAST = {
    *("horst/table1/equations_25", "horst/table1/horst_50", "horst/table2/joint_2"),
    *("horst/table2/spatial_4", "horst/table2/temporal_4", "horst/table3/order_1"),
    *("horst/table4/separate", "horst/table5/horst_url", "horst/table7/horst_url"),
    *("horst/heads/heads_4", "horst/table5/equations", "horst/table5/equations_url"),
}
ROWS = [row for row in list_rows() if row.config in NAMES and row.options and not row.missing]
ROWS = {repr((row.config, row.options)): row.name for row in reversed(ROWS)}.values()  # none twice
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ROWS if name not in FAST]
NAMES_AND_ROWS = [*NAMES, *sorted(FAST), *SLOW]
# BN-Inception halves maps of 8 x 8 and 4 x 4 places then.
SIDE = 64


@pytest.fixture(autouse=True)
def scope(prediction_data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(prediction_data)
    with DefaultScope.overwrite_default_scope("mmaction"):
        yield


def anticipates(cfg: Config) -> bool:
    return cfg.model.cls_head.type.endswith("AnticipationHead")


def shrink(cfg: Config) -> Config:
    """The config with small frames, narrow layers, and batches of three in this process."""
    cfg = copy.deepcopy(cfg)
    if "neck" not in cfg.model:
        cfg.model.backbone.arch = dict(embed_dims=16, depth=1, num_heads=2)
        cfg.model.cls_head.in_channels = 16
    elif "channels" in cfg.model.neck:  # not of RU, as wide as the features of its backbone
        neck = cfg.model.neck
        neck.channels = [8 * width // min(neck.channels) for width in neck.channels]
        cfg.model.cls_head.in_channels = neck.channels[-1]
    if cfg.model.backbone.type.endswith("ConvStem"):
        cfg.model.backbone.channels = neck.in_channels = 8
    for split in ("train", "val", "test"):
        loader = cfg[f"{split}_dataloader"]
        loader.update(batch_size=3, num_workers=0, persistent_workers=False, timeout=0)
        loader.sampler = dict(type="DefaultSampler", shuffle=False)
        for transform in loader.dataset.pipeline:
            for key in ("size", "crop_size"):
                if key in transform:
                    transform[key] = SIDE
            if "scale" in transform:
                transform.scale = tuple(SIDE if n > 0 else n for n in transform.scale)
    return cfg


@pytest.mark.parametrize("name", NAMES_AND_ROWS)
def test_training_step_reaches_every_parameter(name: str) -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    cfg = shrink(get_config(name))
    model = MODELS.build(cfg.model)
    model.init_weights()
    learning = {key for key, p in model.named_parameters() if p.requires_grad}
    frozen = {key for key, _ in model.named_parameters()} - learning
    assert all(key.startswith("backbone.") for key in frozen)
    assert bool(frozen) == cfg.model.backbone.get("frozen", False)
    still = set(learning)
    for parameter_name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue

        def saw(parameter: torch.Tensor, name: str = parameter_name) -> None:
            still.discard(name)

        parameter.register_post_accumulate_grad_hook(saw)
    wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    model.train()
    batch = next(iter(Runner.build_dataloader(cfg.train_dataloader)))
    logged = model.train_step(batch, wrapper)
    assert torch.isfinite(logged["loss"])
    assert still == set()
    after = model.state_dict()
    moved = {key for key in learning if not torch.equal(after[key], before[key])}
    assert any(key.startswith("neck." if model.with_neck else "backbone.") for key in moved)
    assert any(key.startswith("cls_head.") for key in moved)
    if frozen:  # statistics of norms too
        assert all(torch.equal(after[k], before[k]) for k in after if k.startswith("backbone."))


@pytest.mark.parametrize("name", NAMES_AND_ROWS)
def test_metric_takes_what_a_test_step_gives(name: str) -> None:
    torch.manual_seed(0)
    cfg = shrink(get_config(name))
    model = MODELS.build(cfg.model).eval()
    loader = Runner.build_dataloader(cfg.test_dataloader)
    evaluator = Evaluator(cfg.test_evaluator)
    evaluator.dataset_meta = loader.dataset.metainfo
    samples = []
    with torch.no_grad():
        for batch in loader:
            samples += model.test_step(batch)
            evaluator.process(samples[-len(batch["inputs"]) :], batch)
    values = evaluator.evaluate(len(loader.dataset))
    best = cfg.default_hooks.checkpoint.save_best
    head = cfg.model.cls_head
    if anticipates(cfg):
        assert best in values
        for task, classes in head.tasks.items():
            assert samples[0].pred_score[task].shape == (8, classes)
    else:
        assert best == "auto"
        assert next(iter(values)) == "acc/top1"
        assert samples[0].pred_score.shape == (head.num_classes,)
    assert all(0 <= value <= 1 for value in values.values())


@pytest.mark.parametrize("table", ["table5", "table7"])
@pytest.mark.parametrize(
    ("row", "classifier"), [("equations", "linear"), ("equations_url", "unrolling")]
)
def test_rows_of_the_equations_have_no_official_part(table: str, row: str, classifier: str) -> None:
    """Equations 4 to 11 are those of the layers, 12 to 26 those of the classifiers."""
    model = get_config(f"horst/{table}/{row}").model
    assert (model.neck.variant, model.cls_head.form) == ("paper", "paper")
    assert model.cls_head.get("classifier", "linear") == classifier


def test_frames_reach_the_published_backbone_as_b_g_r() -> None:
    cfg = get_config("horst_ek55")
    clip = torch.tensor([30, 20, 10], dtype=torch.uint8).reshape(1, 3, 1, 1, 1)
    preprocess = MODELS.build(cfg.model.data_preprocessor)
    inputs = preprocess({"inputs": [clip.expand(1, 3, 14, 4, 6)], "data_samples": None})["inputs"]
    assert inputs.shape == (1, 1, 3, 14, 4, 6)
    assert inputs[0, 0, :, 5, 1, 2].tolist() == [10 - 104, 20 - 117, 30 - 128]


@pytest.mark.parametrize("name", NAMES)
def test_parts_fit(name: str) -> None:
    """Labels in the order of the head's tasks, and as many; widths; one recipe."""
    cfg = get_config(name)
    assert cfg.default_scope == "mmaction"
    head, neck = cfg.model.cls_head, cfg.model.get("neck")
    with torch.device("meta"):
        backbone = MODELS.build(cfg.model.backbone)
        if neck is None:
            assert backbone.embed_dims == head.in_channels
        else:
            assert backbone.out_channels == neck.in_channels
            assert MODELS.build(neck).out_channels == head.in_channels
    for split in ("train", "val", "test"):
        dataset = cfg[f"{split}_dataloader"].dataset
        last, observe = dataset.pipeline[-2], dataset.pipeline[1]
        assert last.input_format == cfg.model.data_preprocessor.format_shape == "NCTHW"
        if anticipates(cfg):
            assert [*head.tasks] == ["verb", "noun", "action"]
            observe = next(t for t in dataset.pipeline if t.type.endswith("ObserveBefore"))
            assert observe.num_steps == head.horizon == 14
        elif "/early_" in dataset.ann_file:
            assert head.num_classes == 41
            assert (observe.ratio, observe.target_fps) == (0.25, 24)
    if neck is None:
        return
    optimizer = cfg.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.name) == ("mmvidformer.TimmOptimizer", "lookahead_radabelief")
    epochs = cfg.train_cfg.max_epochs
    (cosine,) = cfg.param_scheduler
    assert (cosine.begin, cosine.end, cosine.T_max) == (0.75 * epochs, epochs, 0.25 * epochs)
    if name.endswith("_motion"):
        return
    assert (optimizer.lr, optimizer.weight_decay, epochs) == (2e-3, 1e-3, 50)
    (augment,) = cfg.model.data_preprocessor.augment
    kind = "torchvision.transforms.v2.RandAugment"
    assert augment == dict(type=kind, num_ops=2, magnitude=9)
    if anticipates(cfg):
        assert neck.channels == ([1024] * 2 if name.endswith("ek55") else [512] * 2)
        assert head.classifier == "linear"
        assert cfg.model.data_preprocessor.mean == [104.0, 117.0, 128.0]  # of B, G, R
        assert cfg.model.data_preprocessor.to_rgb
    else:
        assert neck.channels == [128, 256, 512, 512]

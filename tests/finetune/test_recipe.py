"""Shipped configs made ready for lists of one's own."""

from dataclasses import replace
from pathlib import Path

import pytest
from mmengine.config import Config

from mmvidformer import get_config
from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.finetune import Recipe, apply_recipe

LISTS = VideoLists(
    Path("/own"), ("clap", "run", "wave"), dict(train=40, val=9, test=8), "\t", "/own"
)


def made(name: str, lists: VideoLists = LISTS, **recipe: object) -> tuple[Config, str]:
    cfg = get_config(name)
    return cfg, "\n".join(apply_recipe(cfg, lists, Recipe(**recipe)))


@pytest.mark.parametrize(
    "name", ["vivit_fe_k400", "timesformer_b_k400", "feature_fixation_k400", "horst_early25_sthv2"]
)
def test_data_and_classes_of_each_family(name: str) -> None:
    cfg, _ = made(name)
    for split in ("train", "val", "test"):
        dataset = cfg[f"{split}_dataloader"].dataset
        assert dataset.type == "VideoDataset" and "class_file" not in dataset
        assert (dataset.ann_file, dataset.delimiter) == (f"/own/{split}.txt", "\t")
        assert dataset.data_prefix.video == "/own"
    assert (
        cfg.train_dataloader.dataset.pipeline == get_config(name).train_dataloader.dataset.pipeline
    )
    assert cfg.model.cls_head.num_classes == 3
    assert tuple(cfg.model.cls_head.topk) == (1,)
    assert tuple(cfg.val_evaluator.metric_options.top_k_accuracy.topk) == (1,)
    assert cfg.class_names == ["clap", "run", "wave"]


def test_classes_of_mixing_and_of_flips() -> None:
    cfg, said = made("vivit_l_fe_sthv2")
    assert cfg.model.data_preprocessor.blending.num_classes == 3
    assert "flip_label_map" not in str(cfg.train_dataloader.dataset.pipeline)
    assert "no longer swaps the classes" in said


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vivit_l_fe_ek100", "reads a mmvidformer.EpicKitchensDataset"),
        ("horst_ek100", "reads a mmvidformer.AnticipationDataset"),
        ("feature_fixation_image", "reads a mmvidformer.ImageFolderDataset"),
    ],
)
def test_configs_of_other_tasks_are_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(name)


def test_rate_batch_and_schedule() -> None:
    cfg, said = made("vivit_fe_k400", batch=4, procs=2, epochs=10)
    assert cfg.optim_wrapper.optimizer.lr == pytest.approx(0.05 * 8 / 64)
    assert "learning rate 0.00625 = 0.05 x 8 / 64" in said and "10 epochs of 5 steps" in said
    warm_up, cosine = cfg.param_scheduler
    assert warm_up.end == pytest.approx(2.5 / 3) and cosine.T_max == cosine.end == 10
    assert (cfg.train_cfg.max_epochs, cfg.train_cfg.val_interval) == (10, 1)
    assert cfg.auto_scale_lr.enable is False
    cfg, _ = made("timesformer_b_k400", epochs=5)
    assert cfg.param_scheduler[0].milestones == [4, 5]
    cfg, said = made("vivit_fe_k400", lr=0.25)
    assert cfg.optim_wrapper.optimizer.lr == 0.25 and "as given" in said


def test_a_batch_above_the_videos_still_trains() -> None:
    cfg, said = made("vivit_fe_k400", batch=64, epochs=2)
    assert cfg.train_dataloader.batch_size == 40 and cfg.train_dataloader.drop_last is False
    assert "batch 64 is more than the 40 videos of a process: now 40" in said
    # One step an epoch: a warm-up of 1 step would stay at its first value.
    assert [one.type for one in cfg.param_scheduler] == ["CosineAnnealingLR"]
    assert "LinearLR is left out" in said
    with pytest.raises(ValueError, match="41 processes share 40 training videos"):
        made("vivit_fe_k400", procs=41)


def test_frozen_decayed_and_stopped() -> None:
    cfg, _ = made("timesformer_motion", freeze=True, patience=3, workers=0)
    assert cfg.model.type == "mmvidformer.FrozenRecognizer"
    assert cfg.train_dataloader.num_workers == 0
    assert cfg.train_dataloader.persistent_workers is False
    (stop,) = cfg.custom_hooks
    assert (stop.type, stop.monitor, stop.patience) == ("EarlyStoppingHook", "acc/top1", 3)
    cfg, _ = made("timesformer_motion", layer_decay=0.75)
    assert cfg.optim_wrapper.constructor == "mmvidformer.LayerDecayOptimWrapperConstructor"
    assert cfg.optim_wrapper.paramwise_cfg.layer_decay == 0.75
    assert "pos_embed.t" in cfg.optim_wrapper.paramwise_cfg.custom_keys
    for name, recipe, message in (
        ("timesformer_motion", dict(freeze=True, layer_decay=0.5), "choose one of the two"),
        ("horst_early_motion", dict(freeze=True), "not of mmvidformer.RecurrentRecognizer"),
        ("horst_early_motion", dict(layer_decay=0.5), "is for models of transformer blocks"),
        ("timesformer_motion", dict(layer_decay=2.0), "at most 1, got 2.0"),
        ("timesformer_motion", dict(epochs=0), "epochs must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            made(name, **recipe)


def test_empty_splits() -> None:
    lists = replace(LISTS, counts=dict(train=4, val=2, test=0))
    cfg, said = made("timesformer_motion", lists)
    assert cfg.test_dataloader.dataset.ann_file == "/own/val.txt" and "will read val.txt" in said
    lists = replace(LISTS, counts=dict(train=4, val=0, test=0))
    cfg, said = made("timesformer_motion", lists)
    assert cfg.val_dataloader is None and cfg.test_dataloader is None
    assert "no validation" in said and "no test" in said
    with pytest.raises(ValueError, match="stopping early needs validation videos"):
        made("timesformer_motion", lists, patience=2)
    with pytest.raises(ValueError, match=r"there is only \['run'\]"):
        made("timesformer_motion", replace(LISTS, classes=("run",)))

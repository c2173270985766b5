"""Shipped configs adapted to one's own lists."""

from pathlib import Path

import pytest
from mmengine.config import Config

from mmvidformer import get_config
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.finetune.pretraining import apply_pretraining
from mmvidformer.finetune.recipe import apply_recipe
from mmvidformer.finetune.settings import Pretraining, Recipe
from mmvidformer.tasks.lists import read_task_lists

LISTS = VideoLists(Path("/own"), ("clap", "run", "wave"), dict(train=40, val=9, test=8), "\t")


def made(name: str, lists: VideoLists = LISTS, **recipe: object) -> tuple[Config, str]:
    cfg, notes = apply_recipe(get_config(name), lists, Recipe(**recipe))
    return cfg, "\n".join(notes)


@pytest.mark.parametrize(
    "name", ["vivit_fe_k400", "timesformer_b_k400", "feature_fixation_k400", "horst_early25_sthv2"]
)
def test_data_and_classes_of_each_family(name: str) -> None:
    cfg, _ = made(name)
    for split in ("train", "val", "test"):
        dataset = cfg[f"{split}_dataloader"].dataset
        assert dataset.type == "VideoDataset"
        assert (dataset.ann_file, dataset.delimiter) == (f"/own/{split}.txt", "\t")
        assert dataset.data_prefix.video == "/own"
    assert (
        cfg.train_dataloader.dataset.pipeline == get_config(name).train_dataloader.dataset.pipeline
    )
    assert cfg.model.cls_head.num_classes == 3
    assert cfg.class_names == ["clap", "run", "wave"]


def test_classes_of_mixup_and_flips() -> None:
    cfg, said = made("vivit_l_fe_sthv2")
    assert cfg.model.data_preprocessor.blending.num_classes == 3
    assert "label_map" not in str(cfg.model.data_preprocessor)
    assert "no longer swap the classes" in said


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vivit_l_fe_ek100", "one class per video, got mmvidformer.EpicKitchensDataset"),
        ("horst_ek100", "got mmvidformer.AnticipationDataset"),
        ("feature_fixation_image", "got mmvidformer.ImageFolderDataset"),
    ],
)
def test_configs_of_other_tasks_are_rejected(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(name)


def test_only_methods_freeze(tmp_path: Path) -> None:
    """Neither does a config for another method, such as that of a LoRA run, nor pretraining."""
    cfg, said = made("vjepa2_l_sthv2")
    assert "frozen_stages" not in cfg.model.backbone
    assert "all weights are trained, without frozen_stages of the config" in said
    cfg = get_config("vivit_fsa_motion")
    cfg.model.backbone.update(frozen_stages=2, lora=dict(rank=1))
    cfg, _ = apply_pretraining(cfg, [tmp_path / "a.mp4"], tmp_path, Pretraining())
    assert not {"frozen_stages", "lora"} & {*cfg.model.backbone}


def test_configs_without_validation_are_rejected() -> None:
    cfg = get_config("vivit_fe_motion")
    cfg.model.type, cfg.val_dataloader = "mmvidformer.MaskedPretraining", None
    with pytest.raises(ValueError, match="of a MaskedPretraining, must have a val_dataloader"):
        apply_recipe(cfg, LISTS, Recipe())


def test_rate_batch_and_schedule() -> None:
    cfg, said = made("vivit_fe_k400", batch=4, procs=2, epochs=10)
    assert cfg.optim_wrapper.optimizer.lr == pytest.approx(0.05 * 8 / 64)
    assert "learning rate 0.00625 = 0.05 x 8 / 64" in said and "10 epochs of 5 steps" in said
    (schedule,) = cfg.param_scheduler
    assert schedule.warmup == schedule.cosine_begin == pytest.approx(2.5 / 3)
    assert schedule.end == 10
    assert (cfg.train_cfg.max_epochs, cfg.train_cfg.val_interval) == (10, 1)
    assert cfg.auto_scale_lr.enable is False
    cfg, _ = made("timesformer_b_k400", epochs=5)
    assert cfg.param_scheduler[0].milestones == [4, 5]
    cfg, said = made("vivit_fe_k400", lr=0.25)
    assert cfg.optim_wrapper.optimizer.lr == 0.25 and "as given" in said
    cfg = get_config("vivit_fe_k400")
    cfg.pop("auto_scale_lr")
    cfg, said = apply_recipe(cfg, LISTS, Recipe(batch=4))
    assert cfg.optim_wrapper.optimizer.lr == 0.05
    assert "learning rate 0.05 as in the config, which has no base_batch_size" in said


def test_batch_size_above_the_number_of_videos() -> None:
    cfg, said = made("vivit_fe_k400", batch=64, epochs=2)
    assert cfg.train_dataloader.batch_size == 40 and cfg.train_dataloader.drop_last is False
    assert "batch size reduced from 64 to 40, the number of samples per process" in said
    # With one step per epoch, a warm-up of 1 step would keep its first value.
    cfg, said = made("timesformer_motion", batch=64, epochs=2)
    assert [one.type for one in cfg.param_scheduler] == ["CosineAnnealingLR"]
    assert "LinearLR is left out" in said
    with pytest.raises(ValueError, match="at most the 40 training videos, got 41"):
        made("vivit_fe_k400", procs=41)


def test_freezing_and_layer_decay() -> None:
    cfg, _ = made("timesformer_motion", method="linear", workers=0)
    assert cfg.model.type == "mmvidformer.MultiViewRecognizer"
    assert cfg.model.backbone.frozen_stages == cfg.model.backbone.arch.depth
    assert cfg.train_dataloader.num_workers == 0
    cfg, _ = made("timesformer_motion", layer_decay=0.75)
    assert cfg.optim_wrapper.constructor == "mmvidformer.LayerDecayOptimWrapperConstructor"
    assert cfg.optim_wrapper.paramwise_cfg.layer_decay == 0.75
    assert "pos_embed.t" in cfg.optim_wrapper.paramwise_cfg.custom_keys
    for name, recipe, message in (
        ("horst_early_motion", dict(method="lora"), "lora needs a VideoTransformer, got ConvStem"),
        ("timesformer_motion", dict(epochs=0), "epochs must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            made(name, **recipe)


def test_empty_splits() -> None:
    lists = LISTS._replace(counts=dict(train=4, val=2, test=0))
    cfg, said = made("timesformer_motion", lists)
    assert cfg.test_dataloader.dataset.ann_file == "/own/val.txt" and "will read val.txt" in said
    lists = LISTS._replace(counts=dict(train=4, val=0, test=0))
    cfg, said = made("timesformer_motion", lists)
    assert cfg.val_dataloader is None
    assert cfg.test_dataloader.dataset.ann_file == "/own/test.txt"  # with the pipeline of demo
    assert "no validation" in said and "no test" in said
    with pytest.raises(ValueError, match=r"at least 2 classes are needed, got \['run'\]"):
        made("timesformer_motion", LISTS._replace(classes=("run",)))


def test_wrappers_are_removed() -> None:
    cfg = get_config("timesformer_motion")
    loader = cfg.train_dataloader
    loader.dataset = dict(type="RepeatDataset", times=2, dataset=loader.dataset)
    cfg, _ = apply_recipe(cfg, LISTS, Recipe())
    assert cfg.train_dataloader.dataset.type == "VideoDataset"
    assert cfg.train_dataloader.dataset.ann_file == "/own/train.txt"


def test_mixed_precision() -> None:
    assert made("timesformer_motion")[0].optim_wrapper.get("type", "OptimWrapper") == "OptimWrapper"
    cfg, _ = made("timesformer_motion", amp=True)
    assert cfg.optim_wrapper.type == "mmvidformer.Bf16OptimWrapper"


def test_schedules_without_epochs_are_rejected() -> None:
    cfg = get_config("timesformer_motion")
    cfg.train_cfg = dict(type="IterBasedTrainLoop", max_iters=100)
    with pytest.raises(ValueError, match="train_cfg must have max_epochs, got .*'max_iters': 100"):
        apply_recipe(cfg, LISTS, Recipe())


@pytest.mark.parametrize("names", [("turn left", "turn right"), ("TurnLeft", "Jump")])
def test_flips_are_removed_if_a_class_names_a_side(names) -> None:
    lists = LISTS._replace(classes=names)
    cfg = get_config("vivit_fe_k400")
    kinds = [step.type for step in cfg.model.data_preprocessor.augment]
    cfg.train_dataloader.dataset.pipeline.insert(3, dict(type="Flip", flip_ratio=0.5))
    cfg, notes = apply_recipe(cfg, lists, Recipe())
    assert f"horizontal flips are removed: class {names[0]!r} names a side" in notes
    left = [step.type for step in cfg.model.data_preprocessor.augment]
    assert left == [kind for kind in kinds if "Flip" not in kind] and left != kinds
    assert "Flip'" not in str(cfg.train_dataloader)
    assert "augment" not in cfg and "data_root" not in cfg


def test_flips_stay_for_other_classes() -> None:
    cfg, said = made("vivit_fe_k400")
    assert "ClipFlip" in str(cfg.model.data_preprocessor) and "flips are removed" not in said
    assert made("vivit_fe_k400", batch=4, procs=2)[0].auto_scale_lr.base_batch_size == 8


@pytest.mark.parametrize(
    "recipe",
    [
        {},
        dict(method="lora", balance="sampling", amp=True, layer_decay=0.5),
        dict(method="adapter"),
    ],
)
def test_the_base_config_does_not_change(recipe: dict, tmp_path: Path) -> None:
    """Neither do its parts, which the new config shares no dict or list with."""
    for split in ("train", "val", "test"):
        (tmp_path / f"{split}.txt").write_text("a.mp4\t0\nb.mp4\t1\n")
    (tmp_path / "classes.txt").write_text("turn left\nrun\n")
    lists = read_task_lists(tmp_path, "classes")
    base = get_config("timesformer_motion")
    text = base.pretty_text
    cfg, _ = apply_recipe(base, lists, Recipe(**recipe))
    pretraining, _ = apply_pretraining(base, [tmp_path / "a.mp4"], tmp_path, Pretraining())
    for made_config in (cfg, pretraining):
        assert made_config.pretty_text != text
        for step in made_config.train_dataloader.dataset.pipeline:
            step.type = "Changed"
    assert base.pretty_text == text


def test_adapters_are_trained_in_a_frozen_backbone() -> None:
    base = get_config("vivit_fsa_k400").model.backbone
    cfg, said = made("vivit_fsa_k400", method="adapter")
    assert cfg.model.backbone == {**base, "adapter": 0.25, "frozen_stages": 12}
    assert "the backbone is frozen, with an adapter after each block" in said
    assert "adapter" not in made("vivit_fsa_k400")[0].model.backbone


def test_training_on_a_share_of_the_tokens() -> None:
    cfg, said = made("vivit_fe_k400", token_keep=0.5)
    assert cfg.model.backbone.token_keep == 0.5
    assert cfg.custom_hooks[-1] == dict(type="mmvidformer.AllTokensHook")
    assert "training computes 0.5 of the tokens, and all in the last fifth of the steps" in said
    assert "token_keep" not in made("vivit_fe_k400")[0].model.backbone
    with pytest.raises(ValueError, match="token_keep=0.5: tubelets overlap or have padding"):
        made("feature_fixation_k400", token_keep=0.5)
    with pytest.raises(ValueError, match="above 0 and at most 1, got 2"):
        made("vivit_fe_k400", token_keep=2.0)
    with pytest.raises(ValueError, match="BoxesHead reads the places"):
        made("timesformer_b_k400", token_keep=0.5, task="boxes")

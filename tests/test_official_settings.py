"""Settings of the shipped configs against those of the official ones, by the official names.

``official_settings.yml`` was written by the official code. The configs here differ where
``DIFFERENT`` says so, and nowhere else; the pages of the models declare each difference.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from mmengine.config import Config

from mmvidformer import get_config
from mmvidformer.config import type_name
from mmvidformer.engine.pipelines import get_views

REPOSITORIES = yaml.safe_load(Path(__file__).with_name("official_settings.yml").read_text())
OFFICIAL = {
    Path(path).with_suffix("").as_posix(): settings
    for repository in REPOSITORIES.values()
    for path, settings in repository["configs"].items()
}
SCENIC = "scenic/projects/vivit/configs/{}/vivit_{}"
KINETICS = "configs/Kinetics/TimeSformer_{}"
SSV2 = "configs/SSv2/TimeSformer_divST_{}"
FIXATION = "configs/Kinetics/lxvitv2_B16_16x16_{}_21k_cgate_tempshift_spatialshift"
VIVIT = {
    "vivit_st_k400": SCENIC.format("kinetics400", "base_k400"),
    "vivit_fe_k400": SCENIC.format("kinetics400", "base_factorised_encoder"),
    "vivit_l_fe_k400": SCENIC.format("kinetics400", "large_factorised_encoder"),
    "vivit_l_fe_k600": SCENIC.format("kinetics600", "large_factorised_encoder"),
    "vivit_l_fe_ek100": SCENIC.format("epic_kitchens", "large_factorised_encoder"),
    "vivit/official_zoo/l_fe_ek100_config": SCENIC.format(
        "epic_kitchens", "large_factorised_encoder"
    ),
    "vivit_l_fe_sthv2": SCENIC.format("something_something_v2", "large_factorised_encoder"),
    "vivit/table5e/l_fe_code": SCENIC.format("something_something_v2", "large_factorised_encoder"),
}
TIMESFORMER = {
    "timesformer_b_k400": KINETICS.format("divST_8x32_224"),
    "timesformer_hr_k400": KINETICS.format("divST_16x16_448"),
    "timesformer_l_k400": KINETICS.format("divST_96x4_224"),
    "timesformer/table1/joint_k400": KINETICS.format("jointST_8x32_224"),
    "timesformer/table1/space_k400": KINETICS.format("spaceOnly_8x32_224"),
    "timesformer_b_sthv2": SSV2.format("8_224"),
    "timesformer_hr_sthv2": SSV2.format("16_448"),
    "timesformer_l_sthv2": SSV2.format("64_224"),
}
FEATURE_FIXATION = {
    "feature_fixation_sthv2": "configs/SSv2/lxvitv2_B16_16x16",
    "feature_fixation_k400": FIXATION.format("k400"),
    "feature_fixation_k600": FIXATION.format("k600"),
}
DIFFERENT = {
    "vivit_l_fe_ek100": {"dataset_configs.do_three_spatial_crops": False},
    "vivit_l_fe_sthv2": {
        "lr_configs.base_learning_rate": 0.5,
        "dataset_configs.min_resize": 256,
        "dataset_configs.crop_size": 224,
    },
    "feature_fixation_k400": {"SHARE_GATE": True},
}
SIZES = {"b": (768, 12, 12), "l": (1024, 24, 16)}  # width, blocks, heads


def find(steps: list, name: str) -> dict:
    """The transform of a type in a list, or an empty dictionary."""
    return next((step for step in steps if type_name(step).rpartition(".")[2] == name), {})


def sgd(cfg: Config) -> dict[str, Any]:
    """The optimizer, with the defaults of PyTorch's SGD."""
    optimizer = dict(nesterov=False, dampening=0.0) | dict(cfg.optim_wrapper.optimizer)
    assert optimizer["type"] == "SGD"
    return optimizer


def scenic(cfg: Config) -> dict[str, Any]:
    """Settings by the names of scenic's configs."""
    optimizer, model, head = sgd(cfg), cfg.model.backbone, cfg.model.cls_head
    preprocessor, (schedule,) = cfg.model.data_preprocessor, cfg.param_scheduler
    train = cfg.train_dataloader.dataset.pipeline
    test = cfg.test_dataloader.dataset.pipeline
    sampler, jitter = find(train, "SampleFrames"), find(train, "ScaleJitter")
    color = find(preprocessor.augment, "ClipColorJitter")
    gray = find(preprocessor.augment, "RandomGrayscale")
    rand = find(preprocessor.augment, "ClipRandAugment")
    clips, crops = get_views(cfg)
    test_crop = find(test, "ThreeCrop" if crops == 3 else "CenterCrop")
    assert find(test, "Resize").scale == (-1, jitter.short_side)
    assert test_crop.crop_size == jitter.crop_size == model.img_size
    width, depth, heads = SIZES[model.arch]
    encoder = {"num_layers": depth, "num_heads": heads}
    no_encoder = dict.fromkeys(encoder)
    one, both = (encoder, no_encoder) if model.scheme == "spacetime" else (no_encoder, encoder)
    temporal_depth = both["num_layers"] and model.get("temporal_depth", 4)
    momentum = (optimizer["momentum"], optimizer["nesterov"]) == (0.9, False)
    after_warmup = schedule.type.endswith("WarmupCosineLR") and schedule.cosine_begin == 2.5
    tasks = head.get("tasks")
    data = {
        "num_classes": head.get("num_classes"),
        "class_splits": [tasks.noun, tasks.verb] if tasks else None,
        "num_frames": sampler.clip_len,
        "stride": sampler.frame_interval,
        "min_resize": jitter.short_side,
        "crop_size": jitter.crop_size,
        "zero_centering": preprocessor.mean == preprocessor.std == [127.5] * 3,
        "num_test_clips": clips,
        "do_three_spatial_crops": crops == 3,
        "augmentation_params.scale_min_factor": jitter.ratio_range[0],
        "augmentation_params.scale_max_factor": jitter.ratio_range[1],
        "augmentation_params.do_color_augment": bool(color),
        "augmentation_params.prob_color_augment": color.get("p", 0.8),
        "augmentation_params.prob_color_drop": gray.get("p", 0.1),
        "augmentation_params.do_rand_augment": True if rand else None,
        "augmentation_params.rand_augment_num_layers": rand.get("num_layers"),
        "augmentation_params.rand_augment_magnitude": rand.get("magnitude"),
    }
    return {
        "batch_size": 8 * cfg.train_dataloader.batch_size,
        "optimizer": "momentum" if momentum else optimizer,
        "num_training_epochs": cfg.train_cfg.max_epochs,
        "lr_configs.base_learning_rate": optimizer["lr"],
        "lr_configs.factors": after_warmup and "constant * cosine_decay * linear_warmup",
        "l2_decay_factor": optimizer["weight_decay"],
        "max_grad_norm": cfg.optim_wrapper.clip_grad.max_norm,
        "label_smoothing": head.get("label_smooth_eps"),
        "mixup.alpha": (preprocessor.get("blending") or {}).get("alpha"),
        **{f"dataset_configs.{key}": value for key, value in data.items()},
        "model.attention_config.type": model.scheme,
        "model.hidden_size": width,
        **{f"model.{key}": value for key, value in one.items()},
        **{f"model.spatial_transformer.{key}": value for key, value in both.items()},
        "model.temporal_transformer.num_layers": temporal_depth,
        "model.temporal_transformer.num_heads": both["num_heads"],
        "model.patches.size": [*model.stem.tubelet[1:], model.stem.tubelet[0]],
        "model.classifier": model.get("pool", "token"),
        "model.dropout_rate": head.get("dropout_ratio", 0.0),
        "model.attention_dropout_rate": model.get("attn_drop_rate", 0.0),
        "model.stochastic_droplayer_rate": model.get("drop_path_rate"),
        "model.temporal_encoding_config.method": "3d_conv" if model.stem.tubelet[0] > 1 else "2d",
        "model.temporal_encoding_config.kernel_init_method": f"{model.init_from.embed}_initializer",
        "dmvr.random_flip": find(preprocessor.augment, "ClipFlip").get("p") == 0.5,
    }


def slowfast(cfg: Config) -> dict[str, Any]:
    """Settings by the names of SlowFast's forks."""
    optimizer, model, head = sgd(cfg), cfg.model.backbone, cfg.model.cls_head
    preprocessor, schedule = cfg.model.data_preprocessor, cfg.param_scheduler[0]
    augment = preprocessor.get("augment") or []
    train = cfg.train_dataloader.dataset.pipeline
    test = cfg.test_dataloader.dataset.pipeline
    sampler = find(train, "SpanFrames") or find(train, "SegmentFrames")
    clips, crops = get_views(cfg)
    assert (
        find(test, "Resize").scale == (-1, model.img_size) and "clip_grad" not in cfg.optim_wrapper
    )
    blending = preprocessor.get("blending") or {}
    smoothing = {0.0: "cross_entropy", 0.3: "smooth_cross_entropy"}
    return {
        "SOLVER.OPTIMIZING_METHOD": optimizer["type"].lower(),
        "SOLVER.BASE_LR": optimizer["lr"],
        "SOLVER.MAX_EPOCH": cfg.train_cfg.max_epochs,
        "SOLVER.WARMUP_EPOCHS": schedule.get("warmup", 0),
        "SOLVER.MOMENTUM": optimizer["momentum"],
        "SOLVER.DAMPENING": optimizer["dampening"],
        "SOLVER.NESTEROV": optimizer["nesterov"],
        "SOLVER.WEIGHT_DECAY": optimizer["weight_decay"],
        "DATA.NUM_FRAMES": sampler.clip_len,
        "DATA.SAMPLING_RATE": sampler.get("frame_interval"),
        "DATA.TARGET_FPS": sampler.get("target_fps"),
        "DATA.TRAIN_CROP_SIZE": model.img_size,
        "DATA.TEST_CROP_SIZE": find(test, "ThreeCrop").crop_size,
        "DATA.RANDOM_FLIP": find(augment, "ClipFlip").get("p") == 0.5,
        "DATA.MEAN": [round(mean / 255, 6) for mean in preprocessor.mean],
        "DATA.STD": [round(std / 255, 6) for std in preprocessor.std],
        "TEST.NUM_ENSEMBLE_VIEWS": clips,
        "TEST.NUM_SPATIAL_CROPS": crops,
        "MODEL.NUM_CLASSES": head.num_classes,
        "MODEL.LOSS_FUNC": smoothing[head.get("label_smooth_eps", 0.0)],
        "MIXUP.ENABLED": bool(blending),
        "TRAIN.MIXUP_ALPHA": blending.get("alpha", 0.0),
        "GLOBAL_BATCH_SIZE": 8 * cfg.train_dataloader.batch_size,
        "TRAIN.BATCH_SIZE": 8 * cfg.train_dataloader.batch_size,
    }


def timesformer(cfg: Config) -> dict[str, Any]:
    """Settings that the fork of TimeSformer has."""
    train, (schedule,) = cfg.train_dataloader.dataset.pipeline, cfg.param_scheduler
    inverse = find(train, "InverseRescale")
    rescale = inverse or find(train, "RandomRescale")
    assert find(train, "RandomCrop")["size"] == cfg.model.backbone.img_size
    return {
        "SOLVER.LR_POLICY": {"MultiStepLR": "steps_with_relative_lrs"}[schedule.type],
        "SOLVER.STEPS": [0, *schedule.milestones],
        "SOLVER.LRS": [pytest.approx(schedule.gamma**power) for power in range(3)],
        "DATA.TRAIN_JITTER_SCALES": [*rescale.scale_range],
        "DATA.INV_UNIFORM_SAMPLE": bool(inverse),
        "DATA.ENSEMBLE_METHOD": {"score": "sum"}[cfg.model.cls_head.average_clips],
        "TIMESFORMER.ATTENTION_TYPE": cfg.model.backbone.scheme,
    }


def fixation(cfg: Config) -> dict[str, Any]:
    """Settings that the fork of feature fixation has."""
    model, (schedule,) = cfg.model.backbone, cfg.param_scheduler
    shift, head = model.shifts.temporal, cfg.model.cls_head
    augment = cfg.model.data_preprocessor.augment
    decays = cfg.optim_wrapper.paramwise_cfg.custom_keys.values()
    policy = {"WarmupCosineLR": "cosine"}[schedule.type.rpartition(".")[2]]
    rescale = find(cfg.train_dataloader.dataset.pipeline, "RandomRescale")
    return {
        "SOLVER.LR_POLICY": policy,
        "SOLVER.WARMUP_START_LR": pytest.approx(
            schedule.start_factor * cfg.optim_wrapper.optimizer.lr
        ),
        "BN.WEIGHT_DECAY": {decay.decay_mult for decay in decays}.pop(),
        "DATA.TRAIN_JITTER_SCALES": [*rescale.get("scale_range", [])],
        "DATA.AUTOAUGMENT": bool(find(augment, "ClipAutoAugment")),
        "MODEL.DROPOUT_RATE": head.dropout_ratio,
        "XVIT.SHIFT_DIV": shift.divisor,
        "XVIT.SHIFT_SIZE": model.shifts.spatial.distance,
        "XVIT.NUM_SEGMENTS": shift.get("segment", model.clip_len),
        "USE_CGATE": bool(model.fixation),
        "SHARE_GATE": model.fixation.type.endswith("_shared"),
        "LINEAR_TYPE": {"linear": "relu"}[model.kernel.type],
    }


@pytest.mark.parametrize("name", VIVIT)
def test_vivit(name: str) -> None:
    assert scenic(get_config(name)) == OFFICIAL[VIVIT[name]] | DIFFERENT.get(name, {})


@pytest.mark.parametrize("name", TIMESFORMER)
def test_timesformer(name: str) -> None:
    cfg, official = get_config(name), OFFICIAL[TIMESFORMER[name]]
    found = slowfast(cfg) | timesformer(cfg)
    assert {key: found[key] for key in official} == official


@pytest.mark.parametrize("name", FEATURE_FIXATION)
def test_feature_fixation(name: str) -> None:
    cfg, official = get_config(name), OFFICIAL[FEATURE_FIXATION[name]]
    found = slowfast(cfg) | fixation(cfg)
    assert {key: found[key] for key in official} == official | DIFFERENT.get(name, {})


def test_all_official_configs_are_compared() -> None:
    compared = {*VIVIT.values(), *TIMESFORMER.values(), *FEATURE_FIXATION.values()}
    assert compared == {*OFFICIAL}


def test_only_the_official_row_flips_without_swapping_labels() -> None:
    """scenic flips clips of Something-Something; labels that name a side stay as they are."""
    flips = [
        find(get_config(name).model.data_preprocessor.augment, "ClipFlip")
        for name in ("vivit/table5e/l_fe_code", "vivit_l_fe_sthv2")
    ]
    assert [flip.p for flip in flips] == [0.5, 0.5]
    assert [bool(flip.get("label_map")) for flip in flips] == [False, True]

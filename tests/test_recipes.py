"""Recipes of the shipped configs against a table of their sources, so that no key drifts."""

import re
from typing import NamedTuple

import pytest
import timm

from mmvidformer import get_config, list_models
from mmvidformer.config import leaf_datasets, type_name
from mmvidformer.config.shipped import config_folder
from mmvidformer.engine.pipelines import get_views

Channels = tuple[float, ...]


class Recipe(NamedTuple):
    """What a source gives.

    Attributes:
        batch: Clips of all 8 processes.
        lr: Base learning rate.
        epochs: Number of epochs.
        frames: Clip length x frame interval ("8x32"), or segments, seconds or share of the video.
        fps: Rate to which videos are resampled; None for their own.
        mean: Mean of each channel.
        std: Standard deviation of each channel.
        views: Test clips x crops.
        source: Paper and table, or file of the official code.
    """

    batch: int
    lr: float
    epochs: int
    frames: str
    fps: float | None
    mean: Channels
    std: Channels
    views: str
    source: str


FACEBOOK = (114.75,) * 3, (57.375,) * 3  # 0.45 and 0.225, times 255
IMAGENET = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
BN_INCEPTION = (104.0, 117.0, 128.0), (1.0,) * 3  # B, G, R


def timesformer(frames: str, fps: float | None, source: str, views: str = "1x3") -> Recipe:
    return Recipe(64, 0.005, 15, frames, fps, *FACEBOOK, views, source)


KINETICS = "TimeSformer code, configs/Kinetics/TimeSformer_divST_{}.yaml"
SSV2 = "TimeSformer code, configs/SSv2/TimeSformer_divST_{}.yaml"
RECIPES_TIMESFORMER = {
    "timesformer_b_k400": timesformer("8x32", 30, KINETICS.format("8x32_224")),
    "timesformer_hr_k400": timesformer("16x16", 30, KINETICS.format("16x16_448")),
    "timesformer_l_k400": timesformer("96x4", 30, KINETICS.format("96x4_224")),
    "timesformer_b_k600": timesformer("8x32", 30, "as on Kinetics-400; zoo of the official code"),
    "timesformer_hr_k600": timesformer("16x16", 30, "as on Kinetics-400; zoo"),
    "timesformer_l_k600": timesformer("96x4", 30, "as on Kinetics-400; zoo"),
    "timesformer_b_sthv2": timesformer("8 segments", None, SSV2.format("8_224")),
    "timesformer_hr_sthv2": timesformer("16 segments", None, SSV2.format("16_448")),
    "timesformer_l_sthv2": timesformer("64 segments", None, SSV2.format("64_224")),
    "timesformer_b_diving48": timesformer("8x32", 30, "paper, Table 7; sampled as on Kinetics"),
    "timesformer_b_howto100m": timesformer("8x32", 30, "paper, section 4.6", "1x1"),
}
RECIPES_HORST = {
    "horst_early25_sthv2": Recipe(
        8, 2e-3, 50, "0.25 of the video", 24, *IMAGENET, "1x1",
        "HORST paper, sections Training and Early Action Recognition; no statistics in it",
    ),
    "horst_ek55": Recipe(
        32, 2e-3, 50, "14x0.25s", None, *BN_INCEPTION, "1x1",
        "HORST paper, sections Training and Action Anticipation; RULSTM",
    ),
    "horst_ek100": Recipe(
        32, 2e-3, 50, "14x0.25s", None, *BN_INCEPTION, "1x1",
        "HORST paper, sections Training and Action Anticipation; RULSTM",
    ),
}  # fmt: skip
UNIT = (127.5,) * 3, (127.5,) * 3
SCENIC = "scenic, projects/vivit/configs/{}"
TABLE7 = "ViViT, arXiv, Table 7"


def vivit(
    lr: float, epochs: int, frames: str, fps: float | None, source: str, views: str
) -> Recipe:
    return Recipe(64, lr, epochs, frames, fps, *UNIT, views, source)


RECIPES_VIVIT = {
    "vivit_fe_k400": vivit(
        0.05, 30, "32x2", 25, SCENIC.format("kinetics400/vivit_base_factorised_encoder.py"), "4x3"
    ),
    "vivit_st_k400": vivit(
        0.1, 30, "32x2", 25, SCENIC.format("kinetics400/vivit_base_k400.py"), "4x3"
    ),
    "vivit_fsa_k400": vivit(0.1, 30, "32x2", 25, TABLE7, "4x3"),
    "vivit_fdp_k400": vivit(0.1, 30, "32x2", 25, TABLE7, "4x3"),
    "vivit_l_fe_k400": vivit(
        0.1, 30, "32x2", 25, SCENIC.format("kinetics400/vivit_large_factorised_encoder.py"), "4x3"
    ),
    "vivit_l_st_k400": vivit(0.1, 30, "32x2", 25, TABLE7, "4x3"),
    "vivit_h_st_k400": vivit(0.1, 30, "32x2", 25, TABLE7 + "; views of Table 5a", "4x3"),
    "vivit_h_st_k600": vivit(0.1, 30, "32x2", 25, TABLE7 + "; views as on Kinetics-400", "4x3"),
    "vivit_l_fe_k600": vivit(
        0.05, 30, "32x2", 25, SCENIC.format("kinetics600/vivit_large_factorised_encoder.py"), "4x3"
    ),
    "vivit_l_fe_mit": vivit(0.25, 10, "32x2", 25, TABLE7 + "; frame rate as on Kinetics", "4x3"),
    "vivit_l_fe_ek100": vivit(
        0.5, 50, "32x1", None,
        SCENIC.format("epic_kitchens/vivit_large_factorised_encoder.py; views of the zoo"), "4x1",
    ),
    "vivit_l_fe_sthv2": vivit(
        0.5, 35, "32x1", None,
        TABLE7 + "; " + SCENIC.format("something_something_v2/..., whose rate is 0.4"), "4x3",
    ),
}  # fmt: skip
RELEASED = "Linear_VideoTransformer, configs/{} and {}"
RECIPES_FIXATION = {
    "feature_fixation_sthv2": Recipe(
        32, 0.03, 35, "16 segments", None, *UNIT, "2x3",
        RELEASED.format("SSv2/lxvitv2_B16_16x16.yaml", "train_ssv2_linear.sh"),
    ),
    "feature_fixation_k400": Recipe(
        32, 0.035, 40, "16x16", 30, *UNIT, "4x3",
        RELEASED.format("Kinetics/lxvitv2_B16_16x16_k400_21k_cgate_...", "train_k400_linear.sh"),
    ),
    "feature_fixation_k600": Recipe(
        32, 0.035, 40, "16x16", 30, *UNIT, "4x3",
        RELEASED.format("Kinetics/lxvitv2_B16_16x16_k600_21k_cgate_...", "train_k600_linear.sh"),
    ),
    "feature_fixation_image": Recipe(
        1024, 1e-3, 300, "image", None, *UNIT, "1x1", "DeiT paper, Table 9; main.py of its code"
    ),
}  # fmt: skip
RECIPES = {**RECIPES_TIMESFORMER, **RECIPES_HORST, **RECIPES_VIVIT, **RECIPES_FIXATION}
FAMILIES = ("timesformer_", "horst_", "vivit_", "feature_fixation_")


def frames(pipeline: list) -> tuple[str, float | None]:
    """The frames that a pipeline takes, and the rate to which it resamples."""
    fps = next((step.target_fps for step in pipeline if step.get("target_fps")), None)
    for step in pipeline:
        kind = type_name(step)
        if kind == "ObserveBefore":
            return f"{step.num_steps}x{step.time_step}s", fps
        if kind == "ObserveFirst":
            return f"{step.ratio} of the video", fps
        if kind == "SegmentFrames":
            return f"{step.clip_len} segments", fps
        if "clip_len" in step:
            return f"{step.clip_len}x{step.frame_interval}", fps
    return "image", fps


@pytest.mark.parametrize("name", RECIPES)
def test_config_follows_its_source(name: str) -> None:
    cfg, recipe = get_config(name), RECIPES[name]
    optimizer, loader = cfg.optim_wrapper.optimizer, cfg.train_dataloader
    sampled = {frames(data.pipeline) for data in leaf_datasets(loader.dataset)}
    preprocessor = cfg.model.data_preprocessor
    found = Recipe(
        8 * loader.batch_size * cfg.optim_wrapper.get("accumulative_counts", 1),
        optimizer.lr,
        cfg.train_cfg.max_epochs,
        *sampled.pop(),
        tuple(preprocessor.mean),
        tuple(preprocessor.std),
        "{}x{}".format(*get_views(cfg)),
        recipe.source,
    )
    assert not sampled
    assert found == recipe
    assert cfg.auto_scale_lr.base_batch_size == recipe.batch


@pytest.mark.parametrize("name", RECIPES)
def test_clips_are_sampled_alike_in_training_and_testing(name: str) -> None:
    cfg = get_config(name)
    assert frames(cfg.test_pipeline) == frames(cfg.val_pipeline if "val_pipeline" in cfg
                                               else cfg.test_pipeline)  # fmt: skip
    assert frames(cfg.test_pipeline) == frames(cfg.train_pipeline)


def test_image_models_exist() -> None:
    """Configs and rows name weights that timm has."""
    files = config_folder().rglob("*.[py][ym]*")
    names = {n for file in files for n in re.findall(r"timm:([\w.]+)", file.read_text())}
    assert names and names <= set(timm.list_pretrained())


def test_every_recipe_has_a_source() -> None:
    names = {n for n in list_models() if n.startswith(FAMILIES) and not n.endswith("_motion")}
    assert names == set(RECIPES)

"""Shipped configs with tiny models and clips, and what their pipelines make of a video."""

import copy
import math
from pathlib import Path

import numpy as np
from mmengine.config import Config
from mmengine.dataset import Compose

SIDE, FRAMES = 32, 4


def shrink_transform(transform: dict, crop: int, frames: int) -> dict:
    """The transform with its sizes in proportion to a crop of SIDE and clips of some frames."""

    def scaled(pixels: int) -> int:
        return pixels if pixels < 0 else max(math.ceil(pixels * SIDE / crop), SIDE)

    transform = copy.deepcopy(transform)
    for key in ("size", "crop_size", "short_side"):
        if key in transform:
            transform[key] = scaled(transform[key])
    if "scale" in transform and all(isinstance(n, int) for n in transform["scale"]):  # no shares
        transform["scale"] = tuple(scaled(n) for n in transform["scale"])
    if "scale_range" in transform:
        transform["scale_range"] = tuple(scaled(n) for n in transform["scale_range"])
    if "clip_len" in transform:
        transform["clip_len"] = frames
    if "frame_interval" in transform:
        transform["frame_interval"] = 1
    return transform


def shrink(cfg: Config) -> Config:
    """The config with a tiny model of the same kind, and its pipelines with tiny clips."""
    cfg = copy.deepcopy(cfg)
    backbone = cfg.model.backbone
    crop = backbone.img_size
    frames = FRAMES
    if stem := backbone.get("stem"):
        frames = max(FRAMES, stem.tubelet[0])
        stem.tubelet = (stem.tubelet[0], 16, 16)
    backbone.update(clip_len=frames, img_size=SIDE, init_from=None)
    is_shared_unequally = "span" in (backbone.get("rope") or "")  # so that heads must be wide
    backbone.arch = dict(embed_dims=16, depth=1, num_heads=1 if is_shared_unequally else 2)
    if backbone.get("frozen_stages", -1) > 1:
        backbone.frozen_stages = 1
    if "layer_norms" in backbone:
        backbone.layer_norms = [0]
    if "num_heads" in cfg.model.cls_head:
        cfg.model.cls_head.num_heads = 2
    if backbone.get("scheme") == "factorized_encoder":
        backbone.temporal_depth = min(backbone.get("temporal_depth", 1), 1)
    cfg.model.cls_head.in_channels = 16
    for split in ("train", "val", "test"):
        pipeline = cfg[f"{split}_dataloader"].dataset.pipeline
        cfg[f"{split}_pipeline"] = [shrink_transform(one, crop, frames) for one in pipeline]
    augment = cfg.model.data_preprocessor.get("augment") or ()
    cfg.model.data_preprocessor.augment = [shrink_transform(one, crop, frames) for one in augment]
    return cfg


def sampler(pipeline: list[dict]) -> dict:
    """The transform that chooses the frames."""
    return next(transform for transform in pipeline if "clip_len" in transform)


def tiles(cfg: Config) -> bool:
    """Whether testing covers the whole video, with as many clips as that takes."""
    return sampler(cfg.test_pipeline).get("num_clips", 1) is None


def sample(cfg: Config, pipeline: str, video: Path, label: int) -> dict:
    """What a pipeline makes of a video; the label is a pair for several tasks."""
    tasks = "tasks" in cfg.model.cls_head
    labels = np.array([label, label]) if tasks else label
    start = {
        "filename": str(video),
        "label": labels,
        "start_index": 0,
        "modality": "RGB",
        "segment": (0, 7),
    }
    return Compose(cfg[pipeline])(start)

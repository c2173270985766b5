"""Configs with small lists, and what is wrong with them."""

from pathlib import Path

import torch
from mmengine.config import Config

from mmvidformer.config import config_scope
from mmvidformer.engine.preflight import check
from mmvidformer.registry import MODELS

DATASET = "train_dataloader.dataset"
NAMES = [f"{letter}.mp4" for letter in "abcd"]
MODEL = dict(
    type="Recognizer3D",
    backbone=dict(
        type="mmvidformer.ViViT",
        arch=dict(embed_dims=16, depth=1, num_heads=2),
        img_size=32,
        clip_len=4,
        tubelet=(2, 16, 16),
        temporal_depth=1,
    ),
    cls_head=dict(type="TimeSformerHead", num_classes=2, in_channels=16),
)


def config(root: Path, lines: str | None = None, **changes: object) -> Config:
    """A config of four videos, two classes and clips of 4 x 32 x 32."""
    for name in NAMES:
        (root / name).write_bytes(b"x")
    default = "".join(f"{name} {i % 2}\n" for i, name in enumerate(NAMES))
    (root / "list.txt").write_text(default if lines is None else lines)
    cfg = Config(
        dict(
            default_scope="mmaction",
            model=MODEL,
            train_dataloader=dict(
                batch_size=2,
                dataset=dict(
                    type="VideoDataset",
                    ann_file=str(root / "list.txt"),
                    data_prefix=dict(video=str(root)),
                    pipeline=[
                        dict(type="DecordInit"),
                        dict(type="SampleFrames", clip_len=4),
                        dict(type="CenterCrop", crop_size=32),
                    ],
                ),
            ),
        )
    )
    cfg.merge_from_dict(changes)
    return cfg


def build(cfg: Config) -> torch.nn.Module:
    """The model of a config."""
    with config_scope(cfg):
        return MODELS.build(cfg.model)


def error(cfg: Config, world_size: int = 1) -> str:
    """The only error of a config."""
    (found,) = check(cfg, world_size=world_size)[0]
    return found


def warning(cfg: Config) -> str:
    """The only warning of a config without errors."""
    errors, (found,) = check(cfg)
    assert errors == []
    return found

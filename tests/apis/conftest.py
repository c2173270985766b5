"""Tiny recognizers, small recurrent models, and videos."""

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from torch import nn

from mmvidformer import get_config
from mmvidformer.registry import MODELS


@pytest.fixture
def cfg(tiny_videos) -> Config:
    """The config of the tests of the tools, on the tiny videos."""
    cfg = Config.fromfile(Path(__file__).parents[1] / "cli" / "tiny_vivit.py")
    for split in ("train", "val", "test"):
        dataset = cfg[f"{split}_dataloader"].dataset
        dataset.ann_file = str(tiny_videos.train if split == "train" else tiny_videos.val)
        dataset.data_prefix.video = str(tiny_videos.root)
    return cfg


@pytest.fixture
def model(cfg: Config, build: Callable) -> nn.Module:
    """Its model with random weights, in evaluation mode."""
    return build(cfg)


@pytest.fixture
def small(prediction_data: Path, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """A shipped HORST config with narrow layers; its data are in the working folder."""
    monkeypatch.chdir(prediction_data)

    def make(name: str, **changes: object) -> Config:
        cfg = get_config(name)
        cfg.model.backbone.channels = cfg.model.neck.in_channels = 8
        cfg.model.neck.channels = [8, 12]
        cfg.model.cls_head.in_channels = 12
        cfg.merge_from_dict(changes)
        return cfg

    return make


@pytest.fixture
def build() -> Callable:
    """Build the model of a config with random weights, in evaluation mode."""

    def make(cfg: Config) -> nn.Module:
        torch.manual_seed(0)
        with DefaultScope.overwrite_default_scope("mmaction"):
            return MODELS.build(cfg.model).eval()

    return make


@pytest.fixture
def gray_video(tmp_path: Path) -> Callable:
    """Write a video with frames of 48 x 64 pixels; frame i is gray, of brightness 10 i."""

    def write(frames: int, fps: float) -> Path:
        path = tmp_path / f"gray_{frames}_{fps}.avi"
        writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), fps, (64, 48))
        for i in range(frames):
            writer.write(np.full((48, 64, 3), 10 * i % 250, np.uint8))
        writer.release()
        return path

    return write

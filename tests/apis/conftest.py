"""Small recurrent models on tiny data."""

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
def small(prediction_data: Path, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Give a shipped HORST config with narrow layers; its data lie in the working folder."""
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
    """Build the model of a config with random weights, for evaluation."""

    def make(cfg: Config) -> nn.Module:
        torch.manual_seed(0)
        with DefaultScope.overwrite_default_scope("mmaction"):
            return MODELS.build(cfg.model).eval()

    return make


@pytest.fixture
def film(tmp_path: Path) -> Callable:
    """Write a video of so many frames of 48 x 64 pixels; frame i is grey, of brightness 10 i."""

    def write(frames: int, fps: float) -> Path:
        path = tmp_path / f"grey_{frames}_{fps}.avi"
        writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), fps, (64, 48))
        for i in range(frames):
            writer.write(np.full((48, 64, 3), 10 * i % 250, np.uint8))
        writer.release()
        return path

    return write

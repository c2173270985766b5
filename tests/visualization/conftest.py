"""A tiny recogniser and its checkpoint."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer.registry import MODELS


@pytest.fixture
def cfg(tiny_videos) -> Config:
    """The config of the tests of the tools, on the tiny videos."""
    cfg = Config.fromfile(Path(__file__).parents[1] / "tools" / "tiny_vivit.py")
    for split in ("train", "val", "test"):
        dataset = cfg[f"{split}_dataloader"].dataset
        dataset.ann_file = str(tiny_videos.train if split == "train" else tiny_videos.val)
        dataset.data_prefix.video = str(tiny_videos.root)
    return cfg


@pytest.fixture
def model(cfg: Config) -> torch.nn.Module:
    """Its model with random weights, in evaluation mode."""
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        return MODELS.build(cfg.model).eval()


@pytest.fixture
def checkpoint(model: torch.nn.Module, tmp_path: Path) -> str:
    """A checkpoint of the model, as MMEngine writes them."""
    path = tmp_path / "tiny.pth"
    torch.save({"meta": {}, "state_dict": model.state_dict()}, path)
    return str(path)

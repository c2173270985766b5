"""A HuggingFace folder in the place of a config."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from lab.synthetic.render import write_video
from mmvidformer.cli.demo import main as demo
from mmvidformer.cli.export import main as export
from mmvidformer.cli.speed import main as speed


@pytest.fixture
def folder(tmp_path: Path) -> str:
    torch.manual_seed(0)
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    clip = dict(image_size=32, num_frames=4, tubelet_size=[2, 16, 16], hidden_act="gelu_fast")
    config = transformers.VivitConfig(**sizes, **clip, num_labels=3)
    config.id2label = {0: "run", 1: "jump", 2: "sit"}
    transformers.VivitForVideoClassification(config).save_pretrained(tmp_path / "vivit")
    return str(tmp_path / "vivit")


def test_a_folder_is_exported(folder: str, tmp_path: Path, capsys) -> None:
    out = tmp_path / "model.pt2"
    assert export([folder, folder, "--out", str(out)]) in (0, None)
    assert out.is_file() and '["batch", 3, 4, 32, 32]' in capsys.readouterr().out


def test_a_folder_answers(folder: str, tmp_path: Path, capsys) -> None:
    video = tmp_path / "video.mp4"
    write_video(video, np.random.default_rng(0).integers(0, 255, (12, 40, 48, 3), np.uint8), 12)
    assert demo([folder, str(video), "--device", "cpu", "--topk", "3"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("run", "jump", "sit"))
    speed([folder, str(video), "--device", "cpu", "--clips", "1", "--rounds", "1"])
    assert "optimized" in capsys.readouterr().out

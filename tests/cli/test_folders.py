"""A HuggingFace folder in the place of a config."""

from pathlib import Path

import torch
import transformers

from mmvidformer.cli.export import main as export


def test_a_folder_is_exported(tmp_path: Path, capsys) -> None:
    torch.manual_seed(0)
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    clip = dict(image_size=32, num_frames=4, tubelet_size=[2, 16, 16], hidden_act="gelu_fast")
    config = transformers.VivitConfig(**sizes, **clip, num_labels=3)
    transformers.VivitForVideoClassification(config).save_pretrained(tmp_path / "vivit")
    folder, out = str(tmp_path / "vivit"), tmp_path / "model.pt2"
    assert export([folder, folder, "--out", str(out)]) in (0, None)
    assert out.is_file() and '["batch", 3, 4, 32, 32]' in capsys.readouterr().out

"""The training of docs/camera_motion.md, small."""

import re
from pathlib import Path

import pytest
import torch

from benchmarks.camera_motion import by_model
from mmvidformer.config import load_config
from mmvidformer.datasets.motion.camera.paths import CLASSES
from mmvidformer.engine.loading import load_recognizer
from tools.train import main as train

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("camera") / "camera.py"
    page = (ROOT / "docs" / "camera_motion.md").read_text()
    blocks = re.findall("```python\n(.*?)```", page, re.S)
    path.write_text("\n".join(blocks).replace("configs/_base_", str(ROOT / "configs" / "_base_")))
    return path


def test_a_model_is_trained_and_measured(config: Path) -> None:
    small = ["model.backbone.arch.depth=1", "train_dataloader.dataset.clips=128"]
    small += ["train_dataloader.dataset.textures=2", "train_dataloader.num_workers=0"]
    small += ["val_dataloader.dataset.textures=2", "val_dataloader.num_workers=0"]
    small += ["val_dataloader.dataset.clips=9"]
    work_dir = config.parent / "run"
    train([str(config), "--work-dir", str(work_dir), "--cfg-options", *small])
    weights = torch.load(work_dir / "epoch_1.pth", weights_only=True)["state_dict"]
    assert weights["cls_head.fc_flow.weight"].shape == (3, 128)
    made, checkpoint = str(work_dir / "camera.py"), str(work_dir / "epoch_1.pth")
    classify, model = by_model(made, checkpoint), load_recognizer(load_config(made), checkpoint)
    clips = torch.randint(256, (8, 8, 64, 64, 3), dtype=torch.uint8)
    pixels = (clips.permute(0, 4, 1, 2, 3) - 118.0) / 58
    with torch.no_grad():
        logits = model.cls_head(model.backbone(pixels))
        assert [classify(clip.numpy()) for clip in clips] == logits.argmax(1).tolist()
        model.cls_head.fc_flow.bias.copy_(torch.tensor([0.9, 0.0, 0.0]))  # the image moves right
        logits = model.cls_head(model.backbone(pixels))
    assert CLASSES[logits.sum(0).argmax()] == "pan left"

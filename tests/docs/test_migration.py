"""The configs of the migration page build."""

import re
from pathlib import Path

import torch
from mmengine.config import Config

from mmvidformer.registry import MODELS

PAGE = (Path(__file__).parents[2] / "docs" / "migration.md").read_text()


def build(text: str, path: Path) -> tuple[Config, torch.nn.Module]:
    """The config of the page whose block contains a text, and its model."""
    (block,) = [block for block in re.findall(r"(?s)```python\n(.*?)```", PAGE) if text in block]
    path.write_text(block)
    cfg = Config.fromfile(path)
    cfg.model.backbone.init_from = None
    with torch.device("meta"):
        return cfg, MODELS.build({"_scope_": "mmaction", **cfg.model})


def test_timesformer_of_mmaction2(tmp_path: Path) -> None:
    cfg, model = build("mmaction::", tmp_path / "mine.py")
    assert type(model.backbone).__module__ == "mmvidformer.models.timesformer"
    assert model.cls_head.num_classes == 400  # of the config of MMAction2
    names = dict(model.named_parameters())
    own = [key for key in cfg.optim_wrapper.paramwise_cfg.custom_keys if "encoders" in key]
    assert len(own) == 2 and all(any(key in name for name in names) for key in own)


def test_vivit(tmp_path: Path) -> None:
    _, model = build('"mmvidformer.MultiViewRecognizer"', tmp_path / "mine.py")
    clip = torch.empty(1, 3, 32, 224, 224, device="meta")
    assert model.backbone(clip).shape == (1, 768)

"""Configs of the pages that start from one of MMAction2's."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmvidformer.registry import MODELS
from tests.docs.blocks import read_blocks

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/mmaction2.md"])
def test_the_backbone_is_replaced_and_the_rest_stays(page: str, tmp_path: Path) -> None:
    (text,) = [block.text for block in read_blocks(ROOT / page, ROOT) if "_base_" in block.text]
    (tmp_path / "config.py").write_text(text)
    cfg = Config.fromfile(tmp_path / "config.py")
    assert cfg.model.cls_head.type == "TimeSformerHead" and cfg.train_dataloader.batch_size == 8
    cfg.model.backbone.pop("init_from", None)
    with torch.device("meta"):
        model = MODELS.build({"_scope_": "mmaction", **cfg.model})
    clip = torch.empty(1, 3, 8, 224, 224, device="meta")
    assert model.cls_head(model.backbone(clip)).shape == (1, 400)

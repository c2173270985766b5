"""Configs of README and docs: each model is built, and computes a clip or an image."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS as ROOT_MODELS

from mmvidformer.registry import MODELS
from tests.docs.test_code_blocks import BLOCKS, ROOT, python_blocks

SIDE = 224


def configs_of(page: str) -> list[str]:
    """Texts of the blocks that set a ``model``, or a ``backbone`` alone, with all that it needs."""
    texts = [block.text for block in python_blocks(page)]
    return [
        text for text in texts if re.search(r"^(_base_ = .*\n(.*\n)*model|backbone) = ", text, re.M)
    ]


CASES = [
    pytest.param(text, id=f"{page}-{number}")
    for page in BLOCKS
    for number, text in enumerate(configs_of(page))
]


@pytest.mark.parametrize("text", CASES)
def test_a_config_computes_an_output(text: str, tmp_path: Path) -> None:
    text = text.replace('_base_ = "configs/', f'_base_ = "{ROOT}/configs/')
    (tmp_path / "block.py").write_text(text)
    cfg = Config.fromfile(tmp_path / "block.py", import_custom_modules=False)
    backbone = cfg.backbone if "backbone" in cfg else cfg.model.backbone
    with torch.device("meta"):
        # Other projects find it from the root of all registries.
        whole = {"_scope_": "mmaction", **cfg.model} if "model" in cfg else backbone
        model: Any = (MODELS if "model" in cfg else ROOT_MODELS).build(whole)
        clip = torch.empty(1, 3, _frames(backbone), SIDE, SIDE)
    if "model" not in cfg:
        (maps,) = model(clip[:, :, 0] if _frames(backbone) == 1 else clip)
        assert maps.shape[:2] == (1, 768)
        return
    scores = model.eval()(clip[:, None], mode="tensor", stage="head")
    assert scores.shape[-1] == model.cls_head.num_classes


def _frames(backbone: Any) -> int:
    return backbone.get("backbone", backbone).clip_len

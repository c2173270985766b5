"""This package's recognizers convert what they load; others load what they do alone."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import timm
import torch
from mmengine.registry import DefaultScope
from mmengine.runner import load_checkpoint
from torch import nn

from mmvidformer.checkpoints.video_models import DIALECTS, to_other
from mmvidformer.registry import MODELS

ROOT = Path(__file__).parents[2]
SIZES = dict(arch=dict(embed_dims=16, depth=2, num_heads=2), img_size=32, clip_len=4)


def recognizer(**changes: object) -> nn.Module:
    backbone = dict(type="mmvidformer.TimeSformer", **SIZES) | changes
    head = dict(type="TimeSformerHead", num_classes=3, in_channels=16)
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = MODELS.build(
            dict(type="mmvidformer.MultiViewRecognizer", backbone=backbone, cls_head=head)
        )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model.eval()


def check_same(model: nn.Module, other: nn.Module, part: str = "") -> None:
    expected = other.state_dict()
    for name, value in model.state_dict().items():
        assert torch.equal(value, expected[name]) or not name.startswith(part), name


def test_other_models_load_what_they_load_without_the_plugin(tmp_path: Path) -> None:
    """Bit for bit, files of each model into each model."""
    env = dict(os.environ, PYTHONPATH=str(ROOT), TORCH_HOME=str(tmp_path), OMP_NUM_THREADS="1")
    command = [sys.executable, "-W", "ignore", str(ROOT / "tests/other_models.py"), str(tmp_path)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 144
    assert lines[:72] == lines[72:]


@pytest.mark.parametrize("dialect", DIALECTS.values())
def test_a_recognizer_converts_what_it_loads(dialect: str, tmp_path: Path) -> None:
    """By MMEngine and PyTorch, with its head; as a copy, and in a wrapper."""
    source = recognizer()
    state = to_other(source.state_dict(), "divided_space_time", dialect)
    torch.save({"model_state": state, "epoch": 3}, tmp_path / "official.pyth")
    model = recognizer()
    load_checkpoint(model, str(tmp_path / "official.pyth"), logger="silent")
    check_same(model, source)
    again = pickle.loads(pickle.dumps(model))
    for model in (recognizer(), copy.deepcopy(recognizer()), again):
        assert not any(model.load_state_dict(state))
        check_same(model, source)
    wrapped = nn.ModuleDict({"model": recognizer()})
    wrapped.load_state_dict({f"model.{name}": value for name, value in state.items()})
    check_same(wrapped["model"], source)


def test_an_image_model_gives_its_weights_to_the_backbone(tmp_path: Path) -> None:
    image = timm.models.VisionTransformer(
        img_size=32, patch_size=16, embed_dim=16, depth=2, num_heads=2, num_classes=5
    )
    torch.save(image.state_dict(), tmp_path / "timm.pth")
    model = recognizer(scheme="joint_space_time", positions="space")
    head = model.cls_head.fc_cls.weight.clone()
    load_checkpoint(model, str(tmp_path / "timm.pth"), logger="silent")
    blocks = model.backbone.encoders[0].blocks
    assert torch.equal(
        blocks[1].sublayers["joint"].attn.qkv.weight, image.blocks[1].attn.qkv.weight
    )
    assert torch.equal(model.cls_head.fc_cls.weight, head)


def test_what_lacks_weights_is_refused() -> None:
    model = recognizer()
    state = to_other(model.state_dict(), "divided_space_time", "official")
    del state["model.norm.weight"]
    with pytest.raises(
        ValueError, match="MultiViewRecognizer .*missing 1 names .model.norm.weight"
    ):
        model.load_state_dict(state)


def test_own_and_unknown_names_are_left_alone() -> None:
    model, other = recognizer(), recognizer()
    assert not any(other.load_state_dict(model.state_dict()))
    check_same(other, model)
    missing, unexpected = other.load_state_dict({"stem.weight": torch.ones(1)}, strict=False)
    assert unexpected == ["stem.weight"] and len(missing) == len(other.state_dict())

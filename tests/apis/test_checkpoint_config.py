"""The config that a checkpoint belongs to."""

import copy
import json
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmvidformer import get_config
from mmvidformer.apis import checkpoint_config, known_names
from mmvidformer.apis.checkpoint_config import config_of_checkpoint
from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.config import clip_shape
from mmvidformer.config.building import building
from mmvidformer.engine.loading import build_meta_model, load_weights, read_checkpoint
from mmvidformer.registry import MODELS


def save(path: Path, name: str, meta: dict | None = None, **changes: object) -> Config:
    """Write a file with the official names of a TimeSformer config."""
    cfg = get_config(name)
    cfg.merge_from_dict(copy.deepcopy(changes))  # it consumes _delete_
    state = build_meta_model(cfg).state_dict()
    state = {k: torch.empty_like(v, device="cpu") for k, v in state.items() if "." in k}
    official = to_other(state, cfg.model.backbone.scheme, "official")
    torch.save({"model_state": official, **(meta or {})}, path)
    return cfg


@pytest.mark.parametrize(
    "name",
    [
        "timesformer_motion",
        pytest.param("timesformer_b_sthv2", marks=pytest.mark.slow),
        pytest.param("timesformer_l_k400", marks=pytest.mark.slow),
    ],
)
def test_shipped_config(name: str, tmp_path: Path) -> None:
    save(tmp_path / "a.pyth", name)
    found = config_of_checkpoint(tmp_path / "a.pyth")
    assert found.name == name and not found.changed
    assert found.cfg.model == get_config(name).model
    data = "{'DATA': {'MEAN': [0.4, 0.4, 0.4], 'STD': [0.2, 0.2, 0.2], 'SAMPLING_RATE': 8}}"
    save(tmp_path / "b.pyth", name, {"cfg": data})
    found = config_of_checkpoint(tmp_path / "b.pyth")
    assert found.cfg.model.data_preprocessor.mean == [102] * 3
    assert found.cfg.model.data_preprocessor.std == [51] * 3
    assert found.name == name and found.changed


def test_another_scheme_than_a_shipped_config(tmp_path: Path) -> None:
    cfg = save(tmp_path / "a.pyth", "timesformer/table1/joint_k400")
    found = config_of_checkpoint(tmp_path / "a.pyth", num_heads=12)
    assert found.name == "timesformer_b_k400" and found.changed
    assert found.cfg.model.backbone.scheme == "joint_space_time"
    state = build_meta_model(found.cfg).state_dict()
    expected = build_meta_model(cfg).state_dict()
    assert {k: v.shape for k, v in state.items()} == {k: v.shape for k, v in expected.items()}


def test_made_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = ["timesformer_b_k400", "timesformer_motion"]
    monkeypatch.setattr(checkpoint_config, "list_models", lambda: shipped)
    changes = {
        "model.backbone.arch": dict(_delete_=True, embed_dims=32, depth=2, num_heads=2),
        "model.backbone.clip_len": 4,
        "model.backbone.img_size": 112,
        "model.cls_head.num_classes": 3,
        "model.cls_head.in_channels": 32,
    }
    meta = {"cfg": json.dumps({"DATA": {"MEAN": [0.4] * 3, "STD": [0.2] * 3, "SAMPLING_RATE": 8}})}
    save(tmp_path / "a.pyth", "timesformer_b_k400", meta, **changes)
    with pytest.raises(ValueError, match="does not contain the number of heads; give num_heads"):
        config_of_checkpoint(tmp_path / "a.pyth")
    found = config_of_checkpoint(tmp_path / "a.pyth", num_heads=2)
    assert found.name == "timesformer_b_k400" and found.changed
    cfg = found.cfg
    assert clip_shape(cfg) == (3, 4, 112, 112)
    for pipeline in (cfg.test_pipeline, cfg.test_dataloader.dataset.pipeline):
        by_type = {step.type: step for step in pipeline}
        assert by_type["mmvidformer.SpanFrames"].clip_len == 4
        assert by_type["mmvidformer.SpanFrames"].frame_interval == 8
        assert by_type["Resize"].scale == (-1, 112)
        assert by_type["mmvidformer.ThreeCrop"].crop_size == 112
    assert cfg.model.data_preprocessor.std == [51.0] * 3
    assert cfg.train_pipeline[3].scale_range == (128, 160)
    model = build_meta_model(cfg)
    content = read_checkpoint(str(tmp_path / "a.pyth"), model)
    assert not load_weights(model, content).misfits()
    assert known_names(cfg) is None  # not the 400 of the config that it was made from
    cfg.dump(tmp_path / "made.py")
    with building(cfg):
        MODELS.build(Config.fromfile(tmp_path / "made.py").model)


def test_sizes_of_a_made_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Crops and what is resized before them keep their proportions."""
    monkeypatch.setattr(checkpoint_config, "list_models", lambda: ["vivit_st_k400"])
    cfg = get_config("vivit_st_k400")
    cfg.model.backbone.update(arch=dict(embed_dims=32, depth=1, num_heads=2), img_size=112)
    cfg.model.cls_head.in_channels = 32
    state = build_meta_model(cfg).state_dict()
    state = {name: torch.empty_like(value, device="cpu") for name, value in state.items()}
    with pytest.raises(ValueError, match="does not contain the arguments of its model"):
        torch.save(state, tmp_path / "a.pth")
        config_of_checkpoint(tmp_path / "a.pth")
    backbone = cfg.model.backbone.to_dict() | {"type": "ViViT", "img_size": (112, 112)}
    content = {"state_dict": state, "meta": {"backbone": backbone}}
    torch.save(content, tmp_path / "a.pth")
    cfg = config_of_checkpoint(tmp_path / "a.pth").cfg
    jitter, resize, crop = cfg.train_pipeline[3], *cfg.test_pipeline[3:5]
    assert (jitter.short_side, jitter.crop_size) == (128, 112)
    assert (resize.scale, crop.crop_size) == ((-1, 128), 112)


@pytest.mark.parametrize(
    "name, message",
    [
        ("backbone.embed.proj.weight", "no backbone and classifier that determine"),
        ("neck.layers.0.encode.conv.weight", "no backbone and classifier that determine"),
    ],
)
def test_models_without_a_config(name: str, message: str, tmp_path: Path) -> None:
    block = "backbone.encoders.0.blocks.0.sublayers.joint.norm.bias"
    torch.save({block: torch.zeros(1), name: torch.zeros(4, 3, 2, 8, 8)}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match=message):
        config_of_checkpoint(tmp_path / "a.pth")


@pytest.mark.parametrize("name", ["vivit_fe_motion", "feature_fixation_motion"])
def test_weights_with_our_names(name: str, tmp_path: Path) -> None:
    state = build_meta_model(get_config(name)).state_dict()
    torch.save({k: torch.empty_like(v, device="cpu") for k, v in state.items()}, tmp_path / "a.pth")
    found = config_of_checkpoint(tmp_path / "a.pth")
    assert (found.name, found.changed) == (name, False)


def test_another_order_with_the_same_names(tmp_path: Path) -> None:
    """The scheme is in ``meta`` only."""
    cfg = get_config("feature_fixation_k400")
    state = build_meta_model(cfg).state_dict()
    state = {name: torch.empty_like(value, device="cpu") for name, value in state.items()}
    sizes = {key: cfg.model.backbone[key] for key in ("img_size", "clip_len")}
    arch = cfg.model.backbone.arch.to_dict()
    backbone = dict(type="FeatureFixationTransformer", scheme="space_time", arch=arch, **sizes)
    backbone["img_size"] = (224, 224)
    torch.save({"state_dict": state, "meta": {"backbone": backbone}}, tmp_path / "a.pth")
    found = config_of_checkpoint(tmp_path / "a.pth")
    assert found.changed and found.cfg.model.backbone.scheme == "space_time"

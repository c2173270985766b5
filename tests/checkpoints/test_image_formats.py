"""Image ViTs of timm and Google."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.registry import DefaultScope
from mmengine.runner import load_checkpoint

from mmvidformer.checkpoints import read_model
from mmvidformer.checkpoints.addresses import read_all_kinds
from mmvidformer.checkpoints.flax import from_google_npz
from mmvidformer.checkpoints.timm_models import from_timm
from mmvidformer.registry import MODELS


def tensors(arrays: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_timm_names_and_shapes(image_vit: Callable) -> None:
    state = image_vit().state_dict()
    result = from_timm(state)
    assert result.ignored == ["head.weight", "head.bias"]
    assert result.state["backbone.embed.proj.weight"].shape == (32, 3, 1, 8, 8)
    assert result.state["backbone.encoders.0.pos_embed.thw"].shape == (1, 1, 4, 4, 32)
    ours = "backbone.encoders.0.blocks.1"
    for name, theirs in {
        f"{ours}.sublayers.joint.norm.bias": "blocks.1.norm1.bias",
        f"{ours}.sublayers.joint.attn.qkv.weight": "blocks.1.attn.qkv.weight",
        f"{ours}.sublayers.joint.attn.proj.bias": "blocks.1.attn.proj.bias",
        f"{ours}.norm.weight": "blocks.1.norm2.weight",
        f"{ours}.mlp.fc1.weight": "blocks.1.mlp.fc1.weight",
        f"{ours}.mlp.fc2.bias": "blocks.1.mlp.fc2.bias",
        "backbone.encoders.0.norm.weight": "norm.weight",
        "backbone.encoders.0.cls_token": "cls_token",
    }.items():
        assert torch.equal(result.state[name], state[theirs])
    assert len(result.state) == len(state) - 2 + 1  # no classifier, two tables of positions


def test_timm_without_class_token(image_vit: Callable) -> None:
    model = image_vit(class_token=False, global_pool="avg", fc_norm=False, num_classes=0)
    result = from_timm(model.state_dict())
    assert result.missing == ["backbone.encoders.0.cls_token"]
    assert "backbone.encoders.0.pos_embed.cls" not in result.state
    table = result.state["backbone.encoders.0.pos_embed.thw"]
    assert torch.equal(table.flatten(1, 3), model.pos_embed)


def test_timm_with_rectangular_images(image_vit: Callable) -> None:
    state = image_vit(img_size=(32, 48)).state_dict()
    with pytest.raises(ValueError, match="fits no square frame"):
        from_timm(state)
    table = from_timm(state, grid=(1, 4, 6)).state["backbone.encoders.0.pos_embed.thw"]
    assert torch.equal(table.flatten(1, 3), state["pos_embed"][:, 1:])


def test_timm_extensions_are_refused(image_vit: Callable) -> None:
    with pytest.raises(ValueError, match=r"unknown 4 names \[blocks.0.attn.norm.weight"):
        from_timm(image_vit(scale_attn_norm=True).state_dict())


@pytest.mark.parametrize("prefix", ["", "opt/target/"])
def test_google_original_equals_timms_reading(
    prefix: str, google_arrays: Callable, image_vit: Callable, tmp_path: Path
) -> None:
    arrays = {prefix + name: value for name, value in google_arrays().items()}
    np.savez(tmp_path / "vit.npz", **arrays)
    reference = image_vit(num_classes=0)
    reference.load_pretrained(tmp_path / "vit.npz")

    name, result = read_model(tmp_path / "vit.npz")
    assert name == "google_npz" and result.num_heads == 4
    assert result.ignored == ["head/kernel", "head/bias"]
    assert_same(result.state, from_timm(reference.state_dict()).state)


def test_big_vision_equals_timms_reading(
    google_arrays: Callable, image_vit: Callable, tmp_path: Path
) -> None:
    arrays = google_arrays(big_vision=True, cls=False)
    np.savez(tmp_path / "vit.npz", **{f"params/{k}": v for k, v in arrays.items()})
    reference = image_vit(class_token=False, global_pool="avg", fc_norm=False, num_classes=0)
    reference.load_pretrained(tmp_path / "vit.npz")

    name, result = read_model(tmp_path / "vit.npz")
    assert name == "google_npz"
    assert_same(result.state, from_timm(reference.state_dict()).state)


def test_big_vision_class_token_has_no_position(google_arrays: Callable) -> None:
    arrays = google_arrays(big_vision=True, cls=True)
    state = from_google_npz(tensors(arrays)).state
    assert state["backbone.encoders.0.cls_token"].abs().min() > 0
    assert not state["backbone.encoders.0.pos_embed.cls"].any()
    flat = state["backbone.encoders.0.pos_embed.thw"].flatten(1, 3)
    assert torch.equal(flat, torch.from_numpy(arrays["pos_embedding"]))


def test_google_missing_and_unknown_names(google_arrays: Callable) -> None:
    state = tensors(google_arrays())
    state["odd"] = state.pop("Transformer/encoder_norm/bias")
    with pytest.raises(ValueError, match=r"missing.*encoder_norm/bias.*unknown 1 names \[odd\]"):
        from_google_npz(state)


def test_google_block_without_attention_is_an_error(google_arrays: Callable) -> None:
    state = {k: v for k, v in tensors(google_arrays()).items() if "/query/" not in k}
    with pytest.raises(ValueError, match="missing.*query/kernel"):
        from_google_npz(state)


def test_image_models(web, tmp_path: Path, google_arrays, image_vit) -> None:
    """Weights of image models; the backbone gives timm's features."""
    reference = image_vit(num_classes=0)
    arrays = google_arrays()
    np.savez(tmp_path / "vit.npz", **arrays)
    cfg = dict(
        type="mmvidformer.MultiViewRecognizer",
        backbone=dict(
            type="mmvidformer.ViViT",
            arch=dict(embed_dims=32, depth=2, num_heads=4),
            scheme="spacetime",
            img_size=32,
            clip_len=1,
            stem=dict(tubelet=(1, 8, 8)),
        ),
        cls_head=dict(type="TimeSformerHead", num_classes=3, in_channels=32),
    )
    buffer = io.BytesIO()
    torch.save(reference.state_dict(), buffer)
    image = torch.randn(2, 3, 32, 32)
    for name, content in (
        ("vit.npz", (tmp_path / "vit.npz").read_bytes()),
        ("vit.pth", buffer.getvalue()),
    ):
        if name == "vit.npz":
            twin = image_vit(num_classes=0)
            twin.load_pretrained(tmp_path / "vit.npz")
        else:
            twin = reference
        address = web.add(f"/{name}", content)
        with DefaultScope.overwrite_default_scope("mmaction"):
            model = MODELS.build(cfg).eval()
        read_all_kinds()
        load_checkpoint(model, address, "cpu", logger="silent")
        with torch.no_grad():
            found, expected = model.backbone(image[:, :, None]), twin(image)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)

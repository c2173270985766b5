"""Examples for other MM projects, built in their scope, with a training step."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS as MMENGINE_MODELS
from mmengine.registry import DefaultScope, Registry

from mmvidformer.models.feature_maps import FeatureMaps
from mmvidformer.registry import MODELS
from tests.mmcv_operators import provide_operators

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def scope(request: pytest.FixtureRequest) -> Iterator[None]:
    with DefaultScope.overwrite_default_scope(request.param):
        yield


def need(name: str) -> ModuleType:
    """Import a module of another project, or skip the test."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # for example with newer versions of transformers
        pytest.skip(f"cannot import {name}: {error}")


def check_gradients(model: torch.nn.Module) -> None:
    for name, parameter in model.backbone.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("scope", ["mmpretrain"], indirect=True)
def test_mmpretrain_classifier(scope: None) -> None:
    need("mmpretrain.models")
    registry = need("mmpretrain.registry")
    structures = need("mmpretrain.structures")
    cfg = Config.fromfile(EXAMPLES / "mmpretrain_fixation.py")
    model = registry.MODELS.build(cfg.model)
    assert isinstance(model.backbone, FeatureMaps)
    samples = [structures.DataSample().set_gt_label(i) for i in (3, 9)]
    model(torch.randn(2, 3, 64, 64), samples, mode="loss")["loss"].backward()
    check_gradients(model)
    assert model.eval()(torch.randn(1, 3, 48, 80)).shape == (1, 10)


@pytest.fixture
def operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide mmcv's operators. RetinaNet only calls nms."""
    provide_operators(monkeypatch)


@pytest.mark.parametrize("scope", ["mmdet"], indirect=True)
def test_mmdet_detector(scope: None, operators: None) -> None:
    need("mmdet.models")
    registry = need("mmdet.registry")
    structures = need("mmdet.structures")
    from mmengine.structures import InstanceData

    cfg = Config.fromfile(EXAMPLES / "mmdet_retinanet.py")
    model = registry.MODELS.build(cfg.model)
    assert isinstance(model.backbone, FeatureMaps)
    sample = structures.DetDataSample(
        metainfo=dict.fromkeys(("img_shape", "pad_shape", "batch_input_shape"), (96, 64))
        | dict(ori_shape=(192, 128), scale_factor=(0.5, 0.5)),
        gt_instances=InstanceData(
            bboxes=torch.tensor([[4.0, 4.0, 60.0, 70.0]]), labels=torch.tensor([1])
        ),
        ignored_instances=InstanceData(bboxes=torch.zeros(0, 4), labels=torch.zeros(0).long()),
    )
    images = torch.randn(1, 3, 96, 64)
    losses = model(images, [sample], mode="loss")
    sum(sum(parts) for parts in losses.values()).backward()
    check_gradients(model)
    with torch.no_grad():
        (found,) = model.eval()(images, [sample], mode="predict")
    assert len(found.pred_instances) > 0
    assert (found.pred_instances.bboxes <= torch.tensor([128.0, 192.0] * 2)).all()


def test_maps_have_the_layout_of_the_image() -> None:
    arch = dict(embed_dims=8, depth=1, num_heads=2)
    vivit = dict(type="mmvidformer.ViViT", arch=arch, scheme="spacetime", img_size=32)
    maps = MODELS.build(
        dict(type="FeatureMaps", backbone=vivit | dict(clip_len=1, stem=dict(tubelet=(1, 8, 8))))
    ).eval()
    images = torch.randn(2, 3, 24, 32)
    (found,) = maps(images)
    grid = maps.backbone.forward_features(images[:, :, None]).places
    assert found.shape == (2, 8, 3, 4)
    torch.testing.assert_close(found[1, :, 2, 1], grid[1, 0, 2, 1])


@pytest.fixture
def sibling() -> Iterator[Registry]:
    """A registry of another project, a child of MMEngine's, with its default scope."""
    registry = Registry("model", scope="sibling", parent=MMENGINE_MODELS)
    with DefaultScope.overwrite_default_scope("sibling"):
        yield registry
    MMENGINE_MODELS.children.pop("sibling")


def test_is_built_from_the_scope_of_a_sibling(sibling: Registry) -> None:
    arch = dict(embed_dims=8, depth=1, num_heads=2)
    vivit = dict(type="mmvidformer.ViViT", arch=arch, scheme="spacetime", img_size=16)
    maps = sibling.build(
        dict(
            type="mmaction.mmvidformer.FeatureMaps",
            backbone=vivit | dict(clip_len=1, stem=dict(tubelet=(1, 8, 8))),
        )
    )
    assert maps(torch.randn(1, 3, 16, 16))[0].shape == (1, 8, 2, 2)


def test_a_backbone_without_feature_maps_is_refused() -> None:
    with pytest.raises(ValueError, match="must keep a feature map.* scheme='spacetime'"):
        FeatureMaps(dict(type="ViViT", scheme="factorized_encoder"))
    with torch.device("meta"):
        later = dict(type="VideoTransformer", encoders=[{}, dict(frames="pool")])
        with pytest.raises(ValueError, match="encoder 1 pools each frame"):
            FeatureMaps(later)
        with pytest.raises(ValueError, match="pool of the backbone must be 'none', got 'mean'"):
            FeatureMaps(dict(type="VideoTransformer", pool="mean"))

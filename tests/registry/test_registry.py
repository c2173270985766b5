"""Backbones and layers by name, from each scope that a config can have."""

from collections.abc import Iterator

import pytest
import torch
from mmengine.registry import MODELS as ROOT
from mmengine.registry import DefaultScope, Registry

from mmvidformer import layers, registry
from mmvidformer.models import ViViT

BACKBONE = {
    "arch": {"embed_dims": 16, "depth": 1, "num_heads": 2},
    "img_size": 16,
    "clip_len": 2,
    "stem": {"tubelet": (2, 8, 8)},
}
ATTENTION = {"dim": 16, "num_heads": 2, "patterns": ["time"]}
BLOCK = dict(
    config=dict(arch=dict(embed_dims=16, depth=1, num_heads=2), block=[dict(pattern="space")])
)


@pytest.fixture
def scope(request: pytest.FixtureRequest) -> Iterator[str]:
    """Default scope during a test."""
    with DefaultScope.overwrite_default_scope(request.param):
        yield request.param


@pytest.fixture(scope="module")
def sibling() -> Registry:
    """Registry of a sibling project such as MMPreTrain: another child of MMEngine's."""
    return Registry("model", parent=ROOT, scope="mmsibling")


def check(build, prefix: str) -> None:
    backbone = build({"type": f"{prefix}ViViT", **BACKBONE})
    assert type(backbone) is ViViT
    assert backbone(torch.zeros(1, 3, 2, 16, 16)).shape == (1, 16)
    attention = build({"type": f"{prefix}Attention", **ATTENTION})
    assert type(attention) is layers.Attention
    block = build({"type": f"{prefix}TransformerBlock", **BLOCK})
    assert type(block) is layers.TransformerBlock
    assert block(torch.zeros(1, 8, 16), layers.Context(layers.Grid(2, 2, 2))).shape == (1, 8, 16)


@pytest.mark.parametrize("scope", ["mmaction"], indirect=True)
def test_from_mmaction(scope: str) -> None:
    from mmaction.registry import MODELS

    check(MODELS.build, "mmvidformer.")
    check(ROOT.build, "mmvidformer.")


@pytest.mark.parametrize("scope", ["mmvidformer"], indirect=True)
def test_from_our_scope_names_of_mmaction_resolve(scope: str) -> None:
    check(registry.MODELS.build, "")
    from mmaction.models.recognizers import Recognizer3D

    assert registry.MODELS.get("Recognizer3D") is Recognizer3D
    assert registry.TRANSFORMS.get("DecordInit").__module__.startswith("mmaction.")
    assert registry.DATASETS.get("VideoDataset").__module__.startswith("mmaction.")
    assert registry.METRICS.get("AccMetric").__module__.startswith("mmaction.")
    assert registry.HOOKS.get("CheckpointHook").__module__.startswith("mmengine.")


@pytest.mark.parametrize("scope", ["mmsibling"], indirect=True)
@pytest.mark.parametrize("prefix", ["mmaction.mmvidformer.", "mmvidformer.models."])
def test_from_a_sibling_project(sibling: Registry, scope: str, prefix: str) -> None:
    if prefix.startswith("mmaction"):
        check(sibling.build, prefix)
        return
    backbone = sibling.build({"type": f"{prefix}ViViT", **BACKBONE})
    assert type(backbone) is ViViT
    attention = sibling.build({"type": "mmvidformer.layers.Attention", **ATTENTION})
    assert type(attention) is layers.Attention


def test_timesformer_of_mmaction_is_unchanged() -> None:
    from mmaction.registry import MODELS

    theirs = MODELS.get("TimeSformer")
    ours = MODELS.get("mmvidformer.TimeSformer")
    assert theirs.__module__ == "mmaction.models.backbones.timesformer"
    assert ours.__module__ == "mmvidformer.models.timesformer"


def test_layers_are_registered() -> None:
    for name in ("Attention", "TransformerBlock", "Mlp", "TubeletEmbedding", "PositionEmbedding"):
        assert registry.MODELS.get(name) is getattr(layers, name)

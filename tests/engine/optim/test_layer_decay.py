"""Learning rates by depth."""

import pytest
from mmengine.config import ConfigDict
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope
from torch import nn

from mmvidformer.models import TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.feature_fixation import FeatureFixationTransformer

ARCH = dict(embed_dims=8, depth=3, num_heads=2)


class Recognizer(nn.Module):
    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.cls_head = nn.Linear(8, 3)


def rates(model: nn.Module, **paramwise: object) -> dict[str, float]:
    cfg = ConfigDict(
        constructor="mmvidformer.LayerDecayOptimWrapperConstructor",
        optimizer=dict(type="SGD", lr=1.0, weight_decay=0.1),
        paramwise_cfg=paramwise,
    )
    with DefaultScope.overwrite_default_scope("mmaction"):
        groups = build_optim_wrapper(model, cfg).optimizer.param_groups
    names = {id(p): name for name, p in model.named_parameters()}
    return {names[id(p)]: group["lr"] for group in groups for p in group["params"]}


@pytest.mark.parametrize(
    "scheme", ["spacetime", "factorized_self_attention", "factorized_dot_product"]
)
def test_vivit_with_one_encoder(scheme: str) -> None:
    found = rates(Recognizer(ViViT(ARCH, scheme, 32, 4)), layer_decay=0.5)
    assert len(found) == len(list(Recognizer(ViViT(ARCH, scheme, 32, 4)).parameters()))
    assert found["backbone.embed.proj.weight"] == 0.5**4
    assert found["backbone.encoders.0.pos_embed.thw"] == 0.5**4
    assert found["backbone.encoders.0.blocks.0.mlp.fc1.weight"] == 0.5**3
    assert found["backbone.encoders.0.blocks.2.mlp.fc2.bias"] == 0.5
    assert found["backbone.encoders.0.norm.weight"] == found["cls_head.weight"] == 1


def test_both_encoders_of_vivit_count() -> None:
    found = rates(
        Recognizer(ViViT(ARCH, img_size=32, clip_len=4, temporal_depth=2)), layer_decay=0.5
    )
    assert found["backbone.embed.proj.weight"] == found["backbone.encoders.0.cls_token"] == 0.5**6
    assert found["backbone.encoders.0.blocks.0.mlp.fc1.weight"] == 0.5**5
    assert found["backbone.encoders.0.blocks.2.mlp.fc1.weight"] == 0.5**3
    assert found["backbone.encoders.0.norm.bias"] == 0.5**3
    assert found["backbone.encoders.1.pos_embed.thw"] == 0.5**3
    assert found["backbone.encoders.1.blocks.0.mlp.fc1.weight"] == 0.5**2
    assert found["backbone.encoders.1.blocks.1.mlp.fc1.weight"] == 0.5
    assert found["backbone.encoders.1.norm.weight"] == 1
    assert min(found.values()) == 0.5**6


def test_norms_of_layers_belong_to_the_last_block() -> None:
    model = VideoTransformer(ARCH, img_size=32, clip_len=4, layer_norms=[0, 1])
    model.requires_grad_(True)  # norms of layers are frozen
    found = rates(Recognizer(model), layer_decay=0.5)
    assert {found[f"backbone.encoders.0.layer_norms.{n}.weight"] for n in (0, 1)} == {0.5}
    assert found["backbone.encoders.0.norm.weight"] == 1


def test_factors_of_the_config_are_multiplied() -> None:
    model = Recognizer(TimeSformer(ARCH, img_size=32, clip_len=2))
    found = rates(model, layer_decay=0.5, custom_keys={"pos_embed.t": dict(lr_mult=20)})
    assert found["backbone.encoders.0.pos_embed.t"] == 20 * 0.5**4
    assert found["backbone.encoders.0.pos_embed.hw"] == 0.5**4
    assert found["backbone.encoders.0.blocks.1.mlp.fc1.weight"] == 0.5**2


def test_feature_fixation() -> None:
    model = Recognizer(FeatureFixationTransformer(ARCH, img_size=32, clip_len=2))
    found = rates(model, layer_decay=0.75)
    assert found["backbone.embed.norm.weight"] == 0.75**4
    assert found["backbone.encoders.0.blocks.2.mlp.fc1.weight"] == 0.75


def test_other_backbones_and_decays_are_refused() -> None:
    model = Recognizer(nn.Conv2d(3, 8, 1))
    with pytest.raises(TypeError, match="needs a VideoTransformer .* got Conv2d"):
        rates(model, layer_decay=0.5)
    with pytest.raises(ValueError, match=r"must be in \(0, 1\], got 1.5"):
        rates(model, layer_decay=1.5)

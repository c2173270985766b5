"""Norms of blocks and encoders."""

import pytest
import torch
from mmengine.optim import DefaultOptimWrapperConstructor
from torch import nn

from mmvidformer.layers import NORMS, Encoder, EncoderConfig
from mmvidformer.layers.norm import RMSNorm


@pytest.mark.parametrize("eps", [1e-6, 0.1])
def test_values(eps: float) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 8, dtype=torch.float64)
    for name, reference in (("layer", nn.LayerNorm(8, eps)), ("rms", nn.RMSNorm(8, eps))):
        norm = NORMS.build(dict(type=name, eps=eps), normalized_shape=8).double()
        assert list(norm.state_dict()) == list(reference.state_dict())
        for parameter in norm.parameters():
            nn.init.normal_(parameter)
        reference.double().load_state_dict(norm.state_dict())
        torch.testing.assert_close(norm(x), reference(x))
    by_hand = x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * norm.weight
    torch.testing.assert_close(norm(x), by_hand)


def test_epsilon_is_1e_6_by_default() -> None:
    assert type(NORMS.build("layer", normalized_shape=8)) is nn.LayerNorm
    assert type(NORMS.build({"type": "rms"}, normalized_shape=8)) is RMSNorm
    assert {NORMS.build(name, normalized_shape=8).eps for name in ("layer", "rms")} == {1e-6}


@pytest.mark.parametrize(
    ("norm", "error", "message"),
    [
        ("batch", KeyError, "no norm named 'batch'; choose from layer, none, rms"),
        (dict(type="rms", epsilon=1), ValueError, "norm rms has no option epsilon; .*are: eps"),
        (dict(eps=1e-5), KeyError, "no norm named None"),
    ],
)
def test_what_is_wrong_is_named(norm: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        NORMS.build(norm, normalized_shape=8)


def encoder(norm: object) -> Encoder:
    torch.manual_seed(0)
    arch = dict(embed_dims=8, depth=1, num_heads=2)
    return Encoder(EncoderConfig(arch, norm=norm), (2, 2, 2))


def test_all_norms_of_an_encoder_are_of_the_kind() -> None:
    parts = encoder(dict(type="rms", eps=1e-3)).modules()
    norms = [part for part in parts if isinstance(part, nn.LayerNorm)]
    assert [(type(norm), norm.eps) for norm in norms] == [(RMSNorm, 1e-3)] * 3
    assert all(norm.bias is None and torch.equal(norm.weight, torch.ones(8)) for norm in norms)


def test_rules_of_weight_decay_apply() -> None:
    model = encoder("rms")
    groups: list[dict] = []
    constructor = DefaultOptimWrapperConstructor(
        dict(optimizer=dict(type="AdamW", lr=1.0, weight_decay=0.5)),
        dict(norm_decay_mult=0.0),
    )
    constructor.add_params(groups, model)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decay = {names[id(g["params"][0])]: g.get("weight_decay", 0.5) for g in groups}
    assert {name for name, value in decay.items() if value == 0} == {
        name for name in decay if "norm" in name
    }


def test_under_autocast() -> None:
    x = torch.randn(2, 8).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        layer, rms = (
            NORMS.build("layer", normalized_shape=8)(x),
            NORMS.build("rms", normalized_shape=8)(x),
        )
    assert rms.dtype == layer.dtype == torch.bfloat16
    torch.testing.assert_close(rms, NORMS.build("rms", normalized_shape=8)(x.float()).bfloat16())

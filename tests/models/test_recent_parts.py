"""Parts of recent image and video models: the same outputs as in timm and transformers."""

import copy
import pickle
from functools import partial

import pytest
import timm
import torch
from timm.layers import GluMlp, QuickGELU, SwiGLU
from torch import Tensor, nn
from transformers.models.videomae.modeling_videomae import get_sinusoid_encoding_table

from mmvidformer.layers import MLPS, Mlp, PositionEmbedding
from mmvidformer.layers.mlp import ACTIVATIONS
from mmvidformer.layers.tokens import Places
from mmvidformer.models import VideoTransformer
from mmvidformer.models.masked import MaskedPretraining
from mmvidformer.models.stages import find_stages
from tests.models.tiny import PARTS, perturb

ARCH = dict(embed_dims=32, depth=2, num_heads=2)
STEM = dict(tubelet=(1, 8, 8))
ALL = dict(PARTS, rope="axial")


@torch.no_grad()
def test_a_vit_of_timm_with_all_parts() -> None:
    """Registers, pre-norm, norms of queries and keys, layer scale, quick GELU and no bias."""
    torch.manual_seed(0)
    sizes = dict(img_size=(40, 24), patch_size=8, embed_dim=32, depth=2, num_heads=2)
    theirs = timm.models.VisionTransformer(
        **sizes,
        num_classes=0,
        reg_tokens=3,
        no_embed_class=True,
        pre_norm=True,
        qk_norm=True,
        init_values=0.5,
        qkv_bias=False,
        act_layer=QuickGELU,
    )
    perturb(theirs).eval()
    ours = VideoTransformer(
        ARCH,
        1,
        (40, 24),
        stem=STEM,
        cls="mean",
        registers=3,
        norm_pre=True,
        qk_norm="layer",
        layer_scale=0.5,
        qkv_bias=False,
        mlp=dict(type="mlp", act="quick_gelu"),
    ).eval()
    state = theirs.state_dict()
    ours_state = {
        "embed.proj.weight": state.pop("patch_embed.proj.weight")[:, :, None],
        "embed.proj.bias": torch.zeros(32),  # pre-norm models of timm have none
        "encoders.0.registers": state.pop("reg_token"),
        "encoders.0.pos_embed.thw": state.pop("pos_embed").unflatten(1, (1, 5, 3)),
        "encoders.0.pos_embed.cls": torch.zeros(1, 1, 32),
    }
    joint = "sublayers.joint."
    parts = {
        **{"norm1.": f"{joint}norm.", "norm2.": "norm.", "ls1.": f"{joint}scale."},
        **{"ls2.": "scale.", "attn.q_norm.": f"{joint}attn.prepare.qk_norm.q."},
        **{"attn.k_norm.": f"{joint}attn.prepare.qk_norm.k.", "attn.": f"{joint}attn."},
    }
    for name, value in state.items():
        block, _, rest = name.rpartition(".")
        name = f"{name}"
        for old, new in parts.items():
            if f".{old}" in name and name.startswith("blocks."):
                name = name.replace(f".{old}", f".{new}", 1)
                break
        ours_state[f"encoders.0.{name}"] = value
    ours.load_state_dict(ours_state)
    image = torch.randn(2, 3, 40, 24)
    expected = theirs(image)
    assert expected.std() > 0.3
    torch.testing.assert_close(ours(image[:, :, None]), expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("norm", [False, True])
def test_swiglu(norm: bool) -> None:
    torch.manual_seed(0)
    ours, x = MLPS.build(dict(type="swiglu", norm=norm), dim=6, hidden_dim=10), torch.randn(3, 6)
    layer = partial(nn.LayerNorm, eps=1e-6) if norm else None
    eva = SwiGLU(6, 10, norm_layer=layer).eval()
    (g, g_bias), (v, v_bias) = ((part.weight, part.bias) for part in (eva.fc1_g, eva.fc1_x))
    ours.fc1.load_state_dict({"weight": torch.cat([g, v]), "bias": torch.cat([g_bias, v_bias])})
    ours.fc2.load_state_dict(eva.fc2.state_dict())
    torch.testing.assert_close(ours(x), eva(x), atol=1e-5, rtol=1e-5)
    if not norm:  # DINOv2-g packs both
        packed = GluMlp(6, 20, act_layer=nn.SiLU, gate_last=False).eval()
        packed.load_state_dict(ours.state_dict())
        torch.testing.assert_close(ours(x), packed(x))
    assert isinstance(ours, Mlp)  # so that with_cp knows it


def test_quick_gelu() -> None:
    x = torch.randn(9)
    torch.testing.assert_close(ACTIVATIONS["quick_gelu"]()(x), QuickGELU()(x))


def test_flat_sines_are_those_of_videomae() -> None:
    like = torch.zeros(0, 96)
    (table,), _ = PositionEmbedding(96, (8, 14, 14), fixed="flat")((8, 14, 14), like)
    expected = get_sinusoid_encoding_table(8 * 14 * 14, 96)
    torch.testing.assert_close(table.flatten(1, 3), expected, atol=1e-6, rtol=0)
    # More frames continue the numbers; another height or width resizes the table.
    (longer,), _ = PositionEmbedding(96, (4, 14, 14), fixed="flat")((8, 14, 14), like)
    torch.testing.assert_close(longer, table)
    (wider,), _ = PositionEmbedding(96, (8, 14, 14), fixed="flat")((8, 14, 27), like)
    torch.testing.assert_close(wider[..., ::2, :], table, atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="for positions 'joint', 'flat'; got 'flat'"):
        PositionEmbedding(8, (2, 2, 2), ("hw", "t"), fixed="flat")


def build(**options: object) -> VideoTransformer:
    torch.manual_seed(0)
    return perturb(VideoTransformer(ARCH, 4, 32, stem=STEM, **{**ALL, **options}).eval())


def clip(frames: int = 4) -> Tensor:
    return torch.randn(2, 3, frames, 32, 40, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_bias_of_queries_and_values_alone() -> None:
    model, other = build(), build(qkv_bias=True)
    state = model.state_dict()
    for name in [name for name in state if name.endswith("qkv.bias")]:
        assert state[name].shape == (64,)
        q, v = state[name].chunk(2)
        state[name] = torch.cat([q, torch.zeros_like(q), v])
    other.load_state_dict(state)
    torch.testing.assert_close(model(clip()), other(clip()))
    with pytest.raises(ValueError, match="qkv_bias must be True, False or 'qv', got 'k'"):
        build(qkv_bias="k")


@torch.no_grad()
@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(again) -> None:
    model = build()
    assert torch.equal(again(model)(clip()), model(clip()))


@pytest.mark.parametrize("frames", [2, 7])
@torch.no_grad()
def test_other_sizes_of_clips_and_frames(frames: int) -> None:
    model = build(positions="none")
    tokens = build(positions="none", pool="none", fc_norm=None)
    tokens.load_state_dict(
        {k: v for k, v in model.state_dict().items() if not k.startswith("fc_norm")}
        | {f"encoders.0.norm.{kind}": torch.ones(32) for kind in ("weight", "bias")}
    )
    assert tokens(clip(frames)).shape == (2, frames, 4, 5, 32)
    assert model(clip(frames)).isfinite().all()


def test_registers_need_a_class_token() -> None:
    with pytest.raises(ValueError, match="registers=3 join as the class token does"):
        build(cls=None, block=[dict(pattern="joint")])


@torch.no_grad()
@pytest.mark.parametrize("pool", ["cls", "mean", "none"])
def test_the_norm_comes_after_the_pooling(pool: str) -> None:
    model = build(pool=pool)
    tokens = model.forward_features(clip())
    grid = tokens.places
    assert tokens.prefix.shape == (2, 4, 32)
    pooled = {"cls": tokens.prefix[:, 0], "mean": grid.mean((1, 2, 3)), "none": grid}[pool]
    torch.testing.assert_close(model(clip()), model.fc_norm(pooled))
    assert isinstance(model.encoders[0].norm, nn.Identity)


def test_stages_hold_all_parameters_once() -> None:
    model = build()
    stages = [{id(p) for p in stage.parameters()} for stage in find_stages(model)]
    assert sum(map(len, stages)) == len({i for ids in stages for i in ids})
    assert {i for ids in stages for i in ids} == {id(p) for p in model.parameters()}
    encoder = model.encoders[0]
    assert {id(encoder.registers), id(encoder.norm_pre.weight)} <= stages[0]
    assert id(model.fc_norm.weight) in stages[-1]


@torch.no_grad()
@pytest.mark.parametrize("block", [["joint"], ["space", "time"]])
def test_masked_pretraining_turns_by_the_places_that_are_left(block: list[str]) -> None:
    """The tokens of a rectangle are those of the clip that is cropped to it."""
    options = dict(rope="axial", positions="none", fc_norm=None, cls=None, registers=0)
    rows = [dict(pattern=name) for name in block]
    backbone = build(block=rows, pool="none", **options)
    model = MaskedPretraining(backbone, mask_ratio=0.5).eval()
    assert model.whole == []
    # Rows 1 and 2, columns 1 and 2.
    places = Places(torch.tensor([[6, 7, 11, 12]] * 2), (4, 5))
    found = model.encode(clip(), places)
    expected = backbone(clip()[..., 8:24, 8:24])
    torch.testing.assert_close(found[:, :, 0], expected.flatten(2, 3), atol=1e-5, rtol=1e-5)

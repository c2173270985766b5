"""Arguments of the models: the same ones for each preset, listed once, and none without effect."""

from dataclasses import fields
from inspect import signature
from typing import Any

import pytest
import torch

from lab.papers.kernels import linformer
from mmvidformer.layers import EncoderConfig, SubLayer
from mmvidformer.models import (
    FeatureFixationTransformer,
    TimeSformer,
    VideoTransformer,
    ViViT,
    feature_fixation,
    timesformer,
    vivit,
)
from mmvidformer.models.compose import complete
from mmvidformer.models.video_transformer import VideoConfig
from tests.models.tiny import ARCH, SIZE, STEM

PRESETS: dict[type, dict] = {
    ViViT: vivit.SCHEMES,
    TimeSformer: timesformer.SCHEMES,
    FeatureFixationTransformer: feature_fixation.SCHEMES,
}
VALUES: dict[str, Any] = dict(
    arch={**ARCH, "depth": 1},
    embed_dims=24,
    depth=1,
    num_heads=2,
    mlp_ratio=3,
    block=[dict(pattern="joint", fc=True), dict(pattern="joint")],
    positions=dict(type="joint", rule="nearest"),
    rope="dinov3",
    frames="together",
    cls="mean",
    registers=2,
    parallel=True,
    mlp=dict(type="mlp", act="gelu_tanh"),
    norm="rms",
    norm_pre=True,
    layer_norms=[0],
    qkv_bias="qv",
    qk_norm="rms",
    layer_scale=0.1,
    adapter=0.25,
    drop_rate=0.1,
    attn_drop_rate=0.1,
    drop_path_rate=0.2,
    drop_path_rule="clip",
    with_cp=True,
    clip_len=6,
    img_size=(24, 16),
    stem=dict(tubelet=(1, 4, 8)),
    encoders=[{}, dict(depth=1)],
    pool="mean",
    out_layers=[0],
    fc_norm="layer",
    init="flax",
    init_from="timm:vit",
    frozen_stages=1,
    lora=dict(rank=2),
    static=0.1,
    token_keep=0.5,
)
JOINT = dict(shifts={}, scheme="joint", mlp="mlp")
# What another argument needs.
WITH: dict[tuple[type, str], dict] = {
    (ViViT, "parallel"): dict(scheme="factorized_self_attention"),
    **{(kind, "out_layers"): dict(pool="none") for kind in PRESETS},
    (FeatureFixationTransformer, "rope"): dict(kernel="softmax"),
    (FeatureFixationTransformer, "registers"): dict(cls="mean", mlp="mlp"),
    (FeatureFixationTransformer, "cls"): dict(mlp="mlp"),
    (FeatureFixationTransformer, "attn_drop_rate"): dict(kernel="softmax"),
    (ViViT, "static"): dict(scheme="spacetime"),
    (TimeSformer, "static"): dict(scheme="joint_space_time"),
    (FeatureFixationTransformer, "static"): JOINT,
    (FeatureFixationTransformer, "token_keep"): JOINT,
}


def own_arguments(kind: type) -> dict[str, Any]:
    """Arguments of a preset alone, and their defaults."""
    names = [field.name for field in fields(VideoConfig)]
    found = {name: one.default for name, one in signature(kind).parameters.items()}
    return {name: found[name] for name in found if name not in (*names, "options")}


@pytest.mark.parametrize("name", [field.name for field in fields(VideoConfig)])
@pytest.mark.parametrize("kind", PRESETS, ids=lambda kind: kind.__name__)
def test_each_argument_can_be_given_to_each_preset(kind: type, name: str) -> None:
    """The model is that of the preset's options with the argument in place of its default."""
    given = {**SIZE, "stem": STEM, name: VALUES[name]}
    extra = WITH.get((kind, name), {})
    own = {key: extra.get(key, default) for key, default in own_arguments(kind).items()}
    rest = {key: value for key, value in extra.items() if key not in own}
    options = {**given, **rest}
    options = complete(kind, options.pop("arch"), options, own)
    found, expected = kind(**given, **extra), VideoTransformer(**options)
    assert str(found.encoders) == str(expected.encoders)
    assert found.pool == expected.pool and found.init_from == expected.init_from
    shapes = [{n: p.shape for n, p in model.named_parameters()} for model in (found, expected)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            ViViT,
            dict(scheme="spacetime", temporal_depth=2),
            "temporal_depth=2 .*'spacetime'; ",
        ),
        (ViViT, dict(temporal_depth=2, encoders=[{}]), "temporal_depth=2 .* has no effect"),
        (ViViT, dict(pool=False), "no pool named False; choose from all, cls, mean, none"),
        (
            ViViT,
            dict(scheme="factorized_dot_product", pool="cls"),
            "pool='cls' needs a class token",
        ),
        (
            ViViT,
            dict(temporal_dept=2),
            "of ViViT named 'temporal_dept'; .*temporal_depth",
        ),
        (ViViT, dict(optins=1), "no argument of ViViT named 'optins'; did you mean positions"),
        (ViViT, dict(in_chans=4), "'in_chans'; did you mean stem.in_channels"),
        (ViViT, dict(mpl="mlp"), "no argument of ViViT named 'mpl'; did you mean mlp"),
        (TimeSformer, dict(scheme="space_only", reverse=True), "reverse=True .* has no effect"),
        (TimeSformer, dict(scheme="space_only", cls_in_time=True), "cls_in_time=True .*no effect"),
        (TimeSformer, dict(reverse=True, cls_in_time=True), "cls_in_time=True .* reverse=True"),
        (TimeSformer, dict(block=[{}], scheme="axial"), "scheme='axial' .* block="),
        (TimeSformer, dict(scheme="space_only", parallel=True), "parallel=True has no effect"),
        (
            FeatureFixationTransformer,
            dict(shifts={}, shift_last=True),
            "shift_last=True .* shifts={}",
        ),
        (
            FeatureFixationTransformer,
            dict(block=[{}], kernel="softmax"),
            "kernel='softmax' .*block",
        ),
        (VideoTransformer, dict(block=[dict(shift_last=True)]), "shift_last=True has no effect"),
        (
            VideoTransformer,
            dict(block=[dict(shifts=("temporal",), shift_last=True)]),  # of softmax without gates
            "shift_last=True has no effect",
        ),
        (
            VideoTransformer,
            dict(block=[dict(kernel=dict(type="linear", map_last=True))]),
            "map_last=True has no effect",
        ),
        (VideoTransformer, dict(block=[dict(cls="global")]), "cls='global' of sub-layer joint"),
        (VideoTransformer, dict(block=[dict(rope=False)]), "rope=False .* without rope"),
        (
            VideoTransformer,
            dict(block=[dict(rope=False)], rope="axial"),
            "rope='axial' has no effect",
        ),
        (
            VideoTransformer,
            dict(positions=dict(type="joint", fixed=True, rule="nearest")),
            "rule='nearest' has no effect",
        ),
        (
            VideoTransformer,
            dict(positions=dict(type="none", rule="nearest")),
            "rule='nearest' has no effect",
        ),
    ],
)
def test_what_has_no_effect_is_refused(kind: type, options: dict, message: str) -> None:
    with pytest.raises((ValueError, KeyError), match=message) as error, torch.device("meta"):
        kind(ARCH, **options)
    assert "\n" not in str(error.value)


def test_output_is_what_pool_says() -> None:
    clip = torch.randn(2, 3, 4, 16, 16)
    state = None
    for pool, wanted in (("cls", "cls"), ("none", "grid"), ("mean", "mean")):
        model = VideoTransformer(**SIZE, stem=STEM, cls="mean", pool=pool).eval()
        state = state or model.state_dict()
        model.load_state_dict(state)
        tokens = model.forward_features(clip)
        grid = tokens.places
        parts = {"cls": tokens.prefix[:, 0], "grid": grid, "mean": grid.mean((1, 2, 3))}
        torch.testing.assert_close(model(clip), parts[wanted])


def test_an_encoder_may_be_described_by_its_dataclass() -> None:
    described = EncoderConfig(ARCH, block=[SubLayer("time"), SubLayer("space")], norm="rms")
    model = VideoTransformer(**SIZE, encoders=[described], norm="layer", frames="average")
    assert list(model.encoders[0].blocks[0].sublayers) == ["time", "space"]
    assert model.encoders[0].frames == "together" and model.encoders[0].norm.bias is None


@pytest.mark.parametrize(
    ("options", "lengths"),
    [
        (dict(cls="mean"), {"joint": 17, "time": 5, "strided": 3}),
        (dict(), {"joint": 16, "time": 4, "strided": 2}),
    ],
)
def test_linformer_is_made_for_the_keys_and_the_class_token(
    options: dict, lengths: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = [dict(pattern=name, kernel=dict(type="linformer", rank=2)) for name in lengths]
    model = VideoTransformer(**SIZE, stem=STEM, block=block, **options)
    sublayers = model.encoders[0].blocks[0].sublayers
    assert {name: part.attn.kernel.keys.shape[1] for name, part in sublayers.items()} == lengths
    monkeypatch.setattr(linformer.F, "interpolate", None)  # nothing is resized
    assert model(torch.randn(1, 3, 4, 16, 16)).shape == (1, 16)


@pytest.mark.parametrize("kind", [VideoTransformer, *PRESETS])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            dict(stem=dict(norm=True)),
            "stem tubelets needs the option tubelet; its options are: tubelet, in_",
        ),
        (dict(stem=dict(tubelet=(1, 8, 8), nrom=True)), "stem tubelets has no option nrom; .*norm"),
        (dict(stem=dict(tubelet=(1, 8, 8), dim=8)), "stem tubelets has no option dim; .*norm"),
        (dict(lora=dict(layer=["qkv"])), "lora has no option layer; .*: rank, alpha, layers$"),
    ],
)
def test_options_of_parts_are_checked(kind: type, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**{**SIZE, "stem": STEM, **options})


@pytest.mark.parametrize("frames", ["pool", "average"])
@pytest.mark.parametrize("positions", ["time", dict(type="time", fixed=True)])
def test_single_frames_have_no_place_in_time(frames: str, positions: str | dict) -> None:
    encoder = dict(frames=frames, block=[dict(pattern="joint")], positions=positions)
    with pytest.raises(ValueError, match=f"'time' has no effect with frames='{frames}'.*'space'"):
        VideoTransformer(encoders=[encoder, {}], **{**SIZE, "stem": STEM})


def test_positions_in_time_of_the_second_encoder_alone() -> None:
    model = VideoTransformer(
        encoders=[dict(frames="pool"), {}], positions="time", **{**SIZE, "stem": STEM}
    )
    assert [encoder.pos_embed.tables for encoder in model.encoders] == [(), ("t",)]


@pytest.mark.parametrize(
    ("kind", "options"),
    [(TimeSformer, dict(scheme="space_only")), (ViViT, dict(temporal_depth=0))],
)
def test_image_models_without_tables_encode_single_frames(kind: type, options: dict) -> None:
    model = kind("timm:vit_small_patch16_dinov3", depth=1, img_size=32, clip_len=4, **options)
    assert [encoder.pos_embed.tables for encoder in model.encoders] == [()]


@pytest.mark.parametrize("arch", [dict(embed_dims=32), ["{'embed_dims':96", "'depth':2}"]])
def test_an_architecture_is_a_name_or_all_of_its_sizes(arch: object) -> None:
    """A command line makes a list of a dictionary."""
    with pytest.raises(ValueError, match="arch must have embed_dims, depth, num_heads and"):
        ViViT(arch)

"""Linear layers of 8 bits: how near they are, and what does not depend on them."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mmvidformer
from mmvidformer.layers.linear import add_lora
from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.fast import int8
from mmvidformer.models.fast.int8 import Int8Linear, bytes_of_weights, layer_errors, linear_layers
from mmvidformer.models.heads import AttentiveHead
from mmvidformer.models.single_frames import encode_frames, forward_frames

ARCH = dict(embed_dims=32, depth=2, num_heads=2)
SIZE = dict(img_size=32, clip_len=4)
MODELS = {
    "divided": (TimeSformer, dict(stem=dict(tubelet=(1, 16, 16)))),
    "factorized encoder": (ViViT, dict(stem=dict(tubelet=(2, 16, 16)), temporal_depth=1)),
    "fixation": (FeatureFixationTransformer, {}),
    "bias of queries and values": (VideoTransformer, dict(qkv_bias="qv", layer_scale=0.5)),
    "swiglu": (VideoTransformer, dict(mlp="swiglu", pool="mean")),
    "adapted": (VideoTransformer, dict(lora=dict(rank=2), frozen_stages=2)),
}

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="PyTorch was built without oneDNN"
)


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    model_type, options = MODELS[name]
    model = model_type(ARCH, **SIZE, **options)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.eval()


def error(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("shape", [(6, 24), (2, 5, 24), (1, 2, 3, 24), (0, 5, 24)], ids=str)
@pytest.mark.parametrize("act", [None, nn.GELU(), nn.GELU("tanh")], ids=str)
@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_a_layer(bias: bool, act: nn.GELU | None, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(24, 16, bias=bias), torch.randn(*shape)
    layer.weight[3] = 0  # which has no scale
    found, expected = Int8Linear(layer)(x, act), layer(x)
    expected = expected if act is None else act(expected)
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=0, atol=0.05)
    if len(x):
        assert 1e-4 < error(found, expected) < 0.03


@torch.no_grad()
def test_inputs_that_are_rounded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    rounded, x = Int8Linear(nn.Linear(24, 16)), torch.randn(2, 7, 24)
    whole = rounded(x)
    for part in (1, 48, 120):  # a row, two, five
        monkeypatch.setattr(int8, "PART", part)
        assert torch.equal(rounded(x), whole)


@torch.no_grad()
def test_inputs_of_one_number_of_zero_and_of_none() -> None:
    layer = nn.Linear(8, 4)
    rounded = Int8Linear(layer)
    for value in (0.0, 3.0, -2.0):
        x = torch.full((1, 2, 8), value)
        torch.testing.assert_close(rounded(x), layer(x), rtol=0, atol=0.05)
    for value in (torch.nan, torch.inf):
        x = torch.stack([torch.ones(2, 8), torch.full((2, 8), value)])
        assert rounded(x).isfinite()[0].all() and rounded(x).isnan()[1].all()


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_numbers_do_not_overflow(sign: int) -> None:
    """On a processor without VNNI pairs of products would, if inputs had 8 bits."""
    layer = nn.Linear(64, 8, bias=False)
    nn.init.constant_(layer.weight, sign)
    x = torch.ones(2, 3, 64)
    torch.testing.assert_close(Int8Linear(layer)(x), layer(x), rtol=0.01, atol=0)


def test_fewer_bits_where_products_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the steps, twice the error of the inputs."""
    layer, x = nn.Linear(256, 64), torch.randn(1, 50, 256)
    monkeypatch.setattr(int8, "input_bits", lambda: 7)
    rounded = Int8Linear(layer)
    assert rounded.steps == 126
    assert 1e-3 < error(rounded(x), layer(x)) < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_VNNI"])
def test_other_processors(isa: str) -> None:
    """As oneDNN multiplies on them, as far as this one can."""
    root = Path(__file__).parents[3]
    tests = [f"{__file__}::{test.__name__}" for test in (test_the_largest_numbers_do_not_overflow,)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        env=os.environ | {"ONEDNN_MAX_CPU_ISA": isa},
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", MODELS)
def test_models_are_near(name: str) -> None:
    model, clip = build(name), torch.randn(2, 3, 4, 32, 32)
    with torch.no_grad():
        expected = mmvidformer.optimize_for_inference(model)(clip)
        fast = mmvidformer.optimize_for_inference(model, int8=True)
        found = fast(clip)
        assert 0 < error(found, expected) < 0.1
        again = mmvidformer.optimize_for_inference(fast)
        torch.testing.assert_close(again(clip), found, rtol=0, atol=0)
    assert not [*linear_layers(fast)]
    assert [*linear_layers(model)]  # it stays as it is


@torch.no_grad()
def test_clips_do_not_depend_on_their_batch() -> None:
    model = mmvidformer.optimize_for_inference(build("divided"), int8=True)
    clips = torch.randn(3, 3, 4, 32, 32) * torch.tensor([1.0, 5.0, 0.1])[:, None, None, None, None]
    alone = torch.cat([model(clip[None]) for clip in clips])
    torch.testing.assert_close(model(clips), alone, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_frames_of_windows_and_whole_clips_are_rounded_alike() -> None:
    model = mmvidformer.optimize_for_inference(build("factorized encoder"), int8=True)
    clip = torch.randn(1, 3, 4, 32, 32)
    features = torch.cat([encode_frames(model, part) for part in clip.split(2, dim=2)], dim=2)
    found = forward_frames(model, features)
    torch.testing.assert_close(found, model(clip), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_streams() -> None:
    torch.manual_seed(0)
    causal = dict(block=[dict(pattern="causal_time"), dict(pattern="space")], pool="none")
    model = VideoTransformer(ARCH, **SIZE, positions="space", **causal).eval()
    fast = mmvidformer.optimize_for_inference(model, int8=True)
    clip, state, steps = torch.randn(1, 3, 4, 32, 32), None, []
    for frame in clip.split(1, dim=2):
        out, state = fast.step(frame, state)
        steps.append(out)
    assert error(torch.cat(steps, dim=1), model(clip)) < 0.1


@torch.no_grad()
def test_copies_and_files() -> None:
    fast = mmvidformer.optimize_for_inference(build("divided"), int8=True)
    clip = torch.randn(1, 3, 4, 32, 32)
    for other in (copy.deepcopy(fast), mmvidformer.optimize_for_inference(fast, True)):
        torch.testing.assert_close(other(clip), fast(clip), rtol=0, atol=0)
    layer = fast.encoders[0].blocks[0].mlp.fc1
    x = torch.randn(2, 3, layer.in_features)
    torch.testing.assert_close(pickle.loads(pickle.dumps(layer))(x), layer(x), rtol=0, atol=0)


def test_a_copy_of_another_type_leaves_the_layer_as_it_was() -> None:
    layer, x = Int8Linear(nn.Linear(24, 8)), torch.randn(2, 3, 24)
    expected = layer(x)
    other = copy.deepcopy(layer).double().bfloat16()
    assert other.packed is layer.packed and other.scales is not layer.scales
    torch.testing.assert_close(other(x), expected, rtol=0, atol=0)
    other.load_state_dict(Int8Linear(nn.Linear(24, 8)).state_dict())
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=0)
    with pytest.raises(ValueError, match="int8 is for CPUs, got a model on meta"):
        layer.to("meta")


def test_state_dicts_are_whole(tmp_path: Path) -> None:
    """They hold the rounded weights, so that those of another model are taken as a whole."""
    one, other = (Int8Linear(nn.Linear(24, 8)) for _ in range(2))
    torch.save(one.state_dict(), tmp_path / "layer.pth")
    other.load_state_dict(torch.load(tmp_path / "layer.pth", weights_only=True))
    x = torch.randn(2, 3, 24)
    torch.testing.assert_close(other(x), one(x), rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="Missing key.*_extra_state"):
        other.load_state_dict(nn.Linear(24, 8).state_dict())
    with pytest.raises(ValueError, match=r"must have shape \(8, 24\), got \(4, 24\)"):
        other.set_extra_state(torch.zeros(4, 24, dtype=torch.int8))


def test_there_are_no_gradients() -> None:
    """Those of what is beside the layers alone would be wrong."""
    model = mmvidformer.optimize_for_inference(build("divided"), int8=True)
    out = model(torch.randn(1, 3, 4, 32, 32))
    with pytest.raises(RuntimeError, match="a model of 8 bits has no gradients"):
        out.sum().backward()


@torch.no_grad()
def test_the_smallest_numbers() -> None:
    layer = nn.Linear(8, 4)
    expected = layer.bias.expand(1, 3, 4)
    for number in (1e-45, 1e-42, 1e-38, -1e-40):
        torch.testing.assert_close(Int8Linear(layer)(torch.full((1, 3, 8), number)), expected)


def test_bytes_of_weights() -> None:
    layer = nn.Sequential(nn.Linear(1000, 100), nn.LayerNorm(100))
    before = bytes_of_weights(layer)
    assert before == 4 * (100 * 1001 + 200)
    layer[0] = Int8Linear(layer[0])
    assert 0.25 < bytes_of_weights(layer) / before < 0.26


def test_wrapped_layers_stay() -> None:
    model = build("divided")
    block = model.encoders[0].blocks[0]
    block.mlp.fc1.register_forward_hook(lambda *_: None)
    add_lora(model.encoders[0].blocks[1], layers=["qkv"])
    fast = mmvidformer.optimize_for_inference(model, int8=True)
    assert type(fast.encoders[0].blocks[0].mlp.fc1) is nn.Linear
    assert isinstance(fast.encoders[0].blocks[1].sublayers["time"].attn.qkv, Int8Linear)  # merged


def run_noise(model: nn.Module) -> None:
    model(torch.randn(1, 3, 4, 32, 32))


def test_errors_of_layers() -> None:
    backbone = mmvidformer.optimize_for_inference(build("fixation"))
    errors = layer_errors(backbone, run_noise)
    assert list(errors) == list(linear_layers(backbone))
    assert all(1e-4 < value < 0.1 for value in errors.values())
    assert not any("gates" in name for name in errors)  # which belong to attention
    assert not any(layer._forward_hooks for layer in backbone.modules())
    with pytest.raises(ValueError, match="a clip must have shape"):
        layer_errors(backbone, lambda model: model(torch.randn(3, 4, 32, 32)))
    assert not any(layer._forward_hooks for layer in backbone.modules())


def test_errors_of_blocks_in_a_head() -> None:
    head = AttentiveHead(5, 32, num_heads=2, pooling="vjepa", depth=1)
    model = nn.Sequential(TimeSformer(ARCH, **SIZE, pool="none"), head)
    model = mmvidformer.optimize_for_inference(model)
    errors = layer_errors(model, run_noise)
    in_head = [name for name in errors if name.startswith("1.")]
    assert len(in_head) == 4 and len(errors) > len(in_head)
    rounded = mmvidformer.optimize_for_inference(model, int8=True)
    is_rounded = {name for name, layer in rounded.named_modules() if type(layer) is Int8Linear}
    assert is_rounded == set(errors)


def test_a_layer_of_zeros_has_no_error() -> None:
    """Such as the last one of a new TimeSformer's attention over time."""
    backbone = mmvidformer.optimize_for_inference(TimeSformer(ARCH, **SIZE))
    errors = layer_errors(backbone, run_noise)
    assert errors["encoders.0.blocks.1.sublayers.time.attn.proj"] == 0
    assert all(value < 0.1 for value in errors.values())


def test_what_cannot_says_so() -> None:
    with pytest.raises(ValueError, match="int8 is for a VideoTransformer, got Linear"):
        mmvidformer.optimize_for_inference(nn.Linear(2, 2), int8=True)
    with pytest.raises(ValueError, match="int8 is for CPUs, got a model on meta"):
        Int8Linear(nn.Linear(2, 2, device="meta"))

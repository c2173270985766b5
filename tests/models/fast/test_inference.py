"""optimize_for_inference: the same outputs, fewer MACs, and no training."""

import copy

import pytest
import torch
from mmengine.registry import DefaultScope
from torch import nn

import mmvidformer
from mmvidformer.apis.complexity import count_macs
from mmvidformer.models import (
    FeatureFixationTransformer,
    TimeSformer,
    VideoTransformer,
    ViViT,
)
from mmvidformer.models.fast.int8 import Int8Linear
from mmvidformer.models.fast.onednn import CpuLinear
from mmvidformer.models.fast.prefix_only import compute_prefix_only
from mmvidformer.models.heads import AttentiveHead
from mmvidformer.models.timesformer import SCHEMES as TIMESFORMER
from mmvidformer.models.vivit import SCHEMES as VIVIT
from mmvidformer.registry import MODELS

ARCH = {"embed_dims": 16, "depth": 2, "num_heads": 2}
SIZE = {"img_size": 32, "clip_len": 4}
TUBE = {**SIZE, "stem": {"tubelet": (2, 8, 8)}}
PATCH = {**SIZE, "stem": {"tubelet": (1, 8, 8)}}

BACKBONES = {
    **{f"timesformer {name}": (TimeSformer, {"scheme": name, **PATCH}) for name in TIMESFORMER},
    "timesformer reverse": (TimeSformer, {"reverse": True, **PATCH}),
    "timesformer parallel": (TimeSformer, {"parallel": True, **PATCH}),
    "timesformer cls in time": (TimeSformer, {"cls_in_time": True, **PATCH}),
    **{f"vivit {name}": (ViViT, {"scheme": name, "attn_drop_rate": 0.1, **TUBE}) for name in VIVIT},
    "vivit mean": (ViViT, {"scheme": "spacetime", "pool": "mean", **TUBE}),
    "vivit frames averaged": (ViViT, {"temporal_depth": 0, **TUBE}),
    "fixation": (FeatureFixationTransformer, PATCH),
    "fixation softmax": (FeatureFixationTransformer, {"kernel": "softmax", **PATCH}),
    "fixation joint softmax": (
        FeatureFixationTransformer,
        {"kernel": "softmax", "fixation": None, "shifts": {}, "scheme": "joint", **PATCH},
    ),
}  # fmt: skip
ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def shaken(model: nn.Module) -> nn.Module:
    """Draw all weights, so that no zero masks an error."""
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.eval()


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    kind, options = BACKBONES[name]
    return shaken(kind(ARCH, **options))


def macs(model: nn.Module, clip: torch.Tensor) -> int:
    return count_macs(copy.deepcopy(model).requires_grad_(False), clip)


@pytest.mark.parametrize("name", BACKBONES)
def test_outputs_are_the_same(name: str) -> None:
    model = build(name)
    clip = torch.randn(2, 3, 4, 32, 32)
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        expected = model(clip)
        fast = mmvidformer.optimize_for_inference(model)
        torch.testing.assert_close(fast(clip), expected, atol=1e-5, rtol=1e-5)
        again = mmvidformer.optimize_for_inference(fast)
        torch.testing.assert_close(again(clip), expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(model(clip), expected, atol=0, rtol=0)
    assert macs(fast, clip) <= macs(model, clip)
    torch.testing.assert_close(model.state_dict(), before, atol=0, rtol=0)
    assert not any(isinstance(part, nn.Dropout) for part in fast.modules())


@pytest.mark.parametrize("name", ["timesformer divided_space_time", "vivit spacetime"])
def test_gradients_without_the_grid_of_the_last_block(name: str) -> None:
    """The omitted computation has no influence: all gradients are the same."""
    model = build(name)
    clip = torch.randn(2, 3, 4, 32, 32)
    parameters = list(model.parameters())
    whole = torch.autograd.grad(model(clip).square().sum(), parameters)
    compute_prefix_only(model)
    part = torch.autograd.grad(model(clip).square().sum(), parameters)
    for found, expected in zip(part, whole, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["timesformer divided_space_time", "vivit factorized_encoder"])
def test_gradients_of_the_clip(name: str) -> None:
    """Nothing that a backward pass reads is overwritten."""
    model = build(name)
    found = []
    for one in (model, mmvidformer.optimize_for_inference(model)):
        torch.manual_seed(1)
        clip = torch.randn(2, 3, 4, 32, 32, requires_grad=True)
        found += torch.autograd.grad(one(clip).square().sum(), clip)
    scale = found[0].abs().max()
    torch.testing.assert_close(found[1] / scale, found[0] / scale, atol=1e-5, rtol=0)


class Wrapped(nn.Module):
    """Adds a term to the output of a layer, as LoRA does."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.base(x)
        return out + 0.5 * out.sin()


@pytest.mark.parametrize("name", ["vivit spacetime", "vivit factorized_dot_product", "fixation"])
@pytest.mark.parametrize("part", ["qkv", "proj", "fc1", "fc2", "embed.proj", ""])
def test_wrapped_layers_take_effect(name: str, part: str) -> None:
    model, clip = build(name), torch.randn(1, 3, 4, 32, 32)
    names = [n for n, m in model.named_modules() if isinstance(m, nn.Linear | nn.Conv3d)]
    names = [n for n in names if n.endswith(part)]
    assert names

    def wrap(model: nn.Module) -> nn.Module:
        for name in names:
            model.set_submodule(name, Wrapped(model.get_submodule(name)))
        return model

    with torch.no_grad():
        plain = model(clip)
        after = wrap(mmvidformer.optimize_for_inference(model))(clip)
        found = wrap(model)(clip)
        assert (found - plain).abs().max() > 1e-3
        torch.testing.assert_close(after, found, atol=1e-5, rtol=1e-5)
        before = mmvidformer.optimize_for_inference(model)(clip)
        torch.testing.assert_close(before, found, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["timesformer divided_space_time", "vivit spacetime", "fixation"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_hooks_on_every_layer_fire(name: str, dtype: torch.dtype) -> None:
    model, clip = build(name).to(dtype), torch.randn(1, 3, 4, 32, 32, dtype=dtype)
    optimized = mmvidformer.optimize_for_inference(model)
    fired: list[nn.Module] = []
    for one in (model, optimized):
        layers = [m for m in one.modules() if isinstance(m, nn.Linear | nn.Conv3d | nn.GELU)]
        for layer in layers:
            layer.register_forward_hook(lambda layer, *_: fired.append(layer))
        with torch.no_grad():
            one(clip)
            assert {id(layer) for layer in fired} == {id(layer) for layer in layers}
            fired.clear()
    again = mmvidformer.optimize_for_inference(model)  # with the hooks of a copy
    hooked = [m for m in again.modules() if m._forward_hooks]
    assert len(hooked) == len([m for m in model.modules() if m._forward_hooks])


def test_quantized_weights_are_left_alone() -> None:
    """Quantizers replace the weights of a layer, or the layers of the very class nn.Linear."""

    class Weight(nn.Parameter):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            used.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    model, clip = build("vivit spacetime"), torch.randn(1, 3, 4, 32, 32)
    optimized = mmvidformer.optimize_for_inference(model)
    kinds = [sorted(str(type(m)) for m in one.modules()) for one in (model, optimized)]
    assert kinds[0].count("<class 'torch.nn.modules.linear.Linear'>") == kinds[1].count(
        "<class 'torch.nn.modules.linear.Linear'>"
    )
    layer = optimized.encoders[0].blocks[0].mlp.fc1
    with torch.no_grad():
        expected = optimized(clip)
        used: list[object] = []
        layer.weight = Weight(layer.weight.detach())
        torch.testing.assert_close(optimized(clip), expected, atol=1e-5, rtol=1e-5)
    assert nn.functional.linear in used


def test_grid_that_is_the_output_is_computed() -> None:
    model = VideoTransformer(ARCH, img_size=32, clip_len=2, cls="mean", pool="none").eval()
    clip = torch.randn(1, 3, 2, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(mmvidformer.optimize_for_inference(model)(clip), model(clip))


def test_macs_saved_in_the_divided_scheme() -> None:
    """An fc in each block, and 9 D^2 per grid token in the last block."""
    model, clip = build("timesformer divided_space_time"), torch.randn(1, 3, 4, 32, 32)
    tokens, dim = 4 * 4 * 4, 16
    linear = ARCH["depth"] * tokens * dim**2 + tokens * 9 * dim**2
    scores = 2 * 4 * 16 * 17 * dim  # 4 frames, 16 queries, 17 keys; matmuls with keys and values
    # Queries are still projected with the keys and values, in the one layer that does so.
    saved = macs(model, clip) - macs(mmvidformer.optimize_for_inference(model), clip)
    assert saved == linear + scores


def test_recognizer() -> None:
    cfg = mmvidformer.get_config("timesformer_b_k400")
    cfg.model.backbone.update(arch=ARCH, init_from=None, **PATCH)
    cfg.model.cls_head.update(in_channels=16, dropout_ratio=0.5)
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = shaken(MODELS.build(cfg.model))
    clip = torch.randn(1, 1, 3, 4, 32, 32)
    fast = mmvidformer.optimize_for_inference(model)
    with torch.no_grad():
        expected, found = (m(clip, None, mode="tensor", stage="head") for m in (model, fast))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert isinstance(fast.cls_head.dropout, nn.Identity)
    for part in (fast, fast.backbone):
        with pytest.raises(RuntimeError, match="optimized for inference"):
            part.train()
    assert not any(part.training for part in fast.modules())
    assert fast.eval() is fast
    again = copy.deepcopy(fast)
    with pytest.raises(RuntimeError, match="cannot be trained"):
        again.train()
    model.train()


@pytest.mark.parametrize("pooling", ["vjepa", "videoprism", "siglip", "internvideo"])
def test_heads_that_pool_by_attention_are_optimized(pooling: str) -> None:
    torch.manual_seed(0)
    backbone = TimeSformer(ARCH, pool="none", **PATCH)
    options = {"depth": 2} if pooling == "vjepa" else {}
    head = AttentiveHead(5, 16, num_heads=2, pooling=pooling, dropout_ratio=0.5, **options)
    model = shaken(nn.Sequential(backbone, head))
    clip = torch.randn(2, 3, 4, 32, 32)
    with torch.no_grad():
        expected = model(clip)
        torch.testing.assert_close(
            mmvidformer.optimize_for_inference(model)(clip), expected, atol=1e-4, rtol=1e-4
        )
    fast = mmvidformer.optimize_for_inference(model)[1]
    layers = [layer for layer in fast.modules() if isinstance(layer, nn.Linear)]
    assert len(layers) >= 4
    assert all(isinstance(layer.forward, CpuLinear) for layer in layers)
    rounded = mmvidformer.optimize_for_inference(model, int8=True)[1]
    in_blocks = [layer for layer in rounded.modules() if isinstance(layer, Int8Linear)]
    assert len(in_blocks) == 4 * options.get("depth", 0)


def test_other_models_are_returned_unchanged(caplog) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    assert mmvidformer.optimize_for_inference(model) is model
    assert isinstance(model[1], nn.Dropout)
    assert "Sequential is returned unchanged" in caplog.text
    model.train()

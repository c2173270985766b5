"""Training on some of the tokens, and on all of them in the end."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from mmengine.registry import DefaultScope
from torch import nn

from mmvidformer.engine.model_hooks import AllTokensHook
from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.fast.token_dropping import draw_tokens
from mmvidformer.models.feature_maps import FeatureMaps
from mmvidformer.registry import MODELS as REGISTRY

SIZE = dict(arch=dict(embed_dims=16, depth=2, num_heads=2), clip_len=4, img_size=32)
STEM = dict(tubelet=(2, 8, 8))
MODELS: dict[str, tuple[type, dict[str, Any], tuple[int, ...]]] = {
    "joint": (VideoTransformer, dict(cls="mean"), (2, 4, 4)),
    "linear": (VideoTransformer, dict(block=[dict(kernel="linear")]), (2, 4, 4)),
    "joint, tokens": (VideoTransformer, dict(pool="none"), (4, 4)),
    "divided": (TimeSformer, {}, (4, 4)),
    "space only": (TimeSformer, dict(scheme="space_only"), (4, 4)),
    "factorized encoder": (ViViT, dict(temporal_depth=1), (4, 4)),
    "self-attention": (ViViT, dict(scheme="factorized_self_attention"), (4, 4)),
    "dot product": (ViViT, dict(scheme="factorized_dot_product"), (4, 4)),
}


def build(name: str, **options: Any) -> nn.Module:
    model_type, own_options, _ = MODELS[name]
    torch.manual_seed(0)
    return model_type(**SIZE, stem=STEM, drop_path_rate=0.0, **own_options, **options)


@pytest.mark.parametrize("name", MODELS)
def test_a_step_of_training_is_that_of_the_drawn_tokens(name: str) -> None:
    model, clips = build(name, token_keep=0.3), torch.randn(2, 3, 4, 32, 32)
    size = MODELS[name][2]
    torch.manual_seed(1)
    keep = draw_tokens(model, clips, 0.3)
    count = round(0.3 * torch.Size(size).numel())
    assert keep.size == size and keep.numbers.shape == (2, count)
    assert (keep.numbers[0] != keep.numbers[1]).any()
    model.train()
    torch.manual_seed(1)
    found = model(clips)
    torch.testing.assert_close(found, model(clips, kept=keep), rtol=0, atol=0)
    found.sum().backward()
    assert all(weight.grad is not None for weight in model.embed.parameters())


def test_clips_of_several_lengths_and_plain_classifiers() -> None:
    """All ways of a clip through a model in training drop tokens."""
    model, clips = build("factorized encoder", token_keep=0.5).train(), torch.randn(2, 3, 4, 32, 32)
    seen: list[int] = []
    model.embed.register_forward_hook(lambda _, inputs, out: seen.append(out.shape[3]))
    valid = torch.ones(2, 4, dtype=torch.bool)
    valid[1, 2:] = False
    assert model(clips, valid=valid).shape == (2, 16)
    model.forward_features(clips)
    assert seen == [8, 8, 8]  # of 4 x 4


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_all_tokens_are_computed_in_evaluation(name: str) -> None:
    clips = torch.randn(2, 3, 4, 32, 32)
    model, plain = build(name, token_keep=0.3).eval(), build(name).eval()
    torch.testing.assert_close(model(clips), plain(clips), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("model_type", "options", "message"),
    [
        (FeatureFixationTransformer, {}, "token_keep=0.5: tubelets overlap or have padding; use 1"),
        (
            FeatureFixationTransformer,
            dict(stem=STEM),
            "token_keep=0.5: encoders.0: shift .* needs all places",
        ),
        (VideoTransformer, dict(block=[dict(pattern="width")]), "pattern 'width' needs all places"),
        (VideoTransformer, dict(block=[dict(kernel="linformer")]), "kernel 'linformer' needs all"),
    ],
)
def test_models_that_need_all_tokens_say_so(model_type, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        model_type(**SIZE, **options, token_keep=0.5)


@pytest.mark.parametrize("share", [0.0, 1.5, -1.0])
def test_shares_are_checked(share: float) -> None:
    with pytest.raises(ValueError, match=f"above 0 and at most 1, got {share}"):
        build("joint", token_keep=share)


def test_the_last_part_of_training_has_all_tokens() -> None:
    """Also of a run that goes on, and of a model in a wrapper."""
    model = build("joint", token_keep=0.5)
    runner = SimpleNamespace(model=nn.Sequential(model), iter=0, max_iters=20)
    hook = AllTokensHook(last=0.2)
    hook.before_train(runner)
    shares = []
    for runner.iter in range(20):
        hook.before_train_iter(runner, 0)
        shares.append(model.token_keep)
    assert shares == [0.5] * 16 + [1.0] * 4
    hook.after_train(runner)
    assert model.token_keep == 0.5
    runner.iter, hook = 17, AllTokensHook(last=0.2)
    hook.before_train(runner)
    hook.before_train_iter(runner, 0)
    assert model.token_keep == 1.0
    with pytest.raises(ValueError, match="last must be a share from 0 to 1, got 2"):
        AllTokensHook(last=2)


@pytest.mark.parametrize("head", ["BoxesHead", "CameraMotionHead"])
def test_heads_that_read_places_need_all_tokens(head: str) -> None:
    backbone = dict(type="mmvidformer.TimeSformer", **SIZE, pool="none", token_keep=0.5)
    model = dict(type="mmvidformer.MultiViewRecognizer", backbone=backbone)
    model |= dict(cls_head=dict(type=f"mmvidformer.{head}", num_classes=9, in_channels=16))
    with DefaultScope.overwrite_default_scope("mmaction"):
        with pytest.raises(ValueError, match=f"{head} reads the places of all tokens: token_keep"):
            REGISTRY.build(model)
        REGISTRY.build({**model, "cls_head": None})
        del backbone["token_keep"]
        REGISTRY.build(model)


def test_feature_maps_need_all_tokens() -> None:
    with pytest.raises(ValueError, match="a feature map has the places of all tokens: token_keep"):
        FeatureMaps(dict(type="VideoTransformer", **SIZE, token_keep=0.5))

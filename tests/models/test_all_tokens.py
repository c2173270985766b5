"""``pool="all"``: the class token, registers and places of a clip in a row."""

from typing import Any

import pytest
import torch

from mmvidformer.layers import Places
from mmvidformer.layers.outputs import average_places
from mmvidformer.models import VideoTransformer, ViViT
from mmvidformer.models.heads import AttentiveHead
from tests.models.tiny import SIZE, STEM, perturb

JOINT: dict[str, Any] = dict(**SIZE, stem=STEM)
MODELS = {
    "class token and registers": (VideoTransformer, dict(**JOINT, cls="mean", registers=2), 3),
    "norm after the pooling": (VideoTransformer, dict(**JOINT, cls="mean", fc_norm="layer"), 1),
    "neither": (VideoTransformer, dict(**JOINT, cls=None), 0),
    "two encoders": (
        ViViT,
        dict(**SIZE, stem=dict(tubelet=(2, 8, 8)), scheme="factorized_encoder"),
        1,
    ),
}


def build(name: str, pool: str, **options: Any) -> VideoTransformer:
    torch.manual_seed(0)
    kind, settings, _ = MODELS[name]
    return perturb(kind(**settings, pool=pool, **options)).eval()


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_they_are_those_of_the_other_outputs(name: str) -> None:
    prefix, clip = MODELS[name][2], torch.randn(2, 3, 4, 16, 16)
    tokens = build(name, "all")(clip)
    places = build(name, "none")(clip)
    assert tokens.shape == (2, prefix + places.shape[1:4].numel(), 16)
    torch.testing.assert_close(tokens[:, prefix:], places.flatten(1, 3))
    if prefix:
        torch.testing.assert_close(tokens[:, 0], build(name, "cls")(clip))
    torch.testing.assert_close(average_places(tokens), tokens.mean(dim=1))


@torch.no_grad()
def test_clips_of_several_lengths_and_chosen_places() -> None:
    name, clip = "class token and registers", torch.randn(2, 3, 4, 16, 16)
    model = build(name, "all")
    valid = torch.tensor([[True, True, False, False], [True] * 4])
    short, whole = model(clip, valid)
    torch.testing.assert_close(short, model(clip[:1, :, :2])[0])
    torch.testing.assert_close(whole, model(clip)[1])
    kept = Places(torch.tensor([[0, 3, 9], [1, 2, 15]]), (4, 2, 2))
    assert model(clip, kept=kept).shape == (2, 3 + 3, 16)
    head = AttentiveHead(5, 16, num_heads=2)
    assert head(model(clip)).shape == (2, 5)


def test_training_on_some_places() -> None:
    model = build("class token and registers", "all", token_keep=0.5).train()
    assert model(torch.randn(2, 3, 4, 16, 16)).shape == (2, 3 + 4 * 2, 16)


def test_what_they_rule_out() -> None:
    with pytest.raises(ValueError, match="out_layers needs pool='none', got 'all'"):
        build("neither", "all", out_layers=(0, 1))
    with pytest.raises(ValueError, match="output is pooled over time; use pool='none'"):
        build(
            "neither", "all", block=[dict(pattern="causal_time")], positions="time"
        ).check_causal()
    with pytest.raises(KeyError, match="no pool named 'tokens'; choose from all, cls, mean, none"):
        build("neither", "tokens")

"""Activation checkpointing: the same loss and gradients, and no activation computed thrice."""

import pytest
import torch
from torch import nn

from mmvidformer.layers import TransformerBlock
from mmvidformer.models.feature_fixation import FeatureFixationTransformer
from mmvidformer.models.timesformer import SCHEMES, TimeSformer
from mmvidformer.models.vivit import SCHEMES as VIVIT_SCHEMES
from mmvidformer.models.vivit import ViViT

STEM = {"tubelet": (1, 8, 8)}
ARCH = {"embed_dims": 16, "depth": 3, "num_heads": 2}
CLIP = {"arch": ARCH, "img_size": 16, "clip_len": 4, "drop_path_rate": 0.5}
# With all kinds of randomness, so that the recomputation must repeat the draws.
MODEL_LIST = {
    **{s: (TimeSformer, {"scheme": s, "stem": STEM}) for s in SCHEMES},
    **{
        s: (
            ViViT,
            {"scheme": s, "stem": {"tubelet": (2, 8, 8)}, "drop_rate": 0.2, "attn_drop_rate": 0.2},
        )
        for s in VIVIT_SCHEMES
    },
    "fixation": (FeatureFixationTransformer, {}),
    "performer": (FeatureFixationTransformer, {"kernel": "performer"}),
}


@pytest.mark.parametrize(("with_cp", "times"), [(False, 1), ("activations", 2), (True, 2)])
def test_activations_are_computed_once_or_twice(
    with_cp: bool | str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the forward and the backward pass, whatever recomputes them."""
    calls = []
    gelu = nn.functional.gelu
    monkeypatch.setattr(
        nn.functional, "gelu", lambda *args, **kwargs: (calls.append(1), gelu(*args, **kwargs))[1]
    )
    model = FeatureFixationTransformer(**CLIP, with_cp=with_cp).train()
    model(torch.randn(1, 3, 4, 16, 16)).sum().backward()
    assert len(calls) == times * ARCH["depth"]


def test_what_is_recomputed() -> None:
    for with_cp in ("activations", True, False):
        model = FeatureFixationTransformer(**CLIP, with_cp=with_cp)
        parts = [part for part in model.modules() if hasattr(part, "recomputes")]
        chosen = {isinstance(part, TransformerBlock) for part in parts if part.recomputes}
        assert chosen == ({with_cp is True} if with_cp else set()) and parts
    with pytest.raises(ValueError, match="False, 'activations' or True, got 'blocks'"):
        FeatureFixationTransformer(**CLIP, with_cp="blocks")


@pytest.mark.parametrize("name", MODEL_LIST)
def test_loss_and_gradients_are_equal_with_stochastic_depth(name: str) -> None:
    build, options = MODEL_LIST[name]
    clip = torch.randn(4, 3, 4, 16, 16, generator=torch.Generator().manual_seed(0))
    found = []
    for with_cp in (False, "activations", True):
        torch.manual_seed(0)
        model = build(**{**CLIP, **options}, with_cp=with_cp).train()
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.2)
        loss = model(clip).square().mean()
        loss.backward()
        found.append({"loss": loss, **{n: p.grad for n, p in model.named_parameters()}})
        after = torch.rand(())
        found[-1]["next draw"] = after
    for key, value in found[0].items():
        torch.testing.assert_close(found[1][key], value, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(found[2][key], value, rtol=1e-5, atol=1e-6)

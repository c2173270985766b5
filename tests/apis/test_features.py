import pytest
import torch
from torch import nn

from mmvidformer.apis import backbone_features
from mmvidformer.models import VideoTransformer


def test_tokens_are_averaged_if_the_head_would_do_it(model) -> None:
    """FeatureFixationTransformer gives tokens (N, T, H, W, D)."""
    torch.manual_seed(0)
    clips = torch.randint(256, (2, 3, 4, 32, 32), dtype=torch.uint8)
    tokens = backbone_features(model, clips, tokens=True, batch_size=1)
    assert tokens.shape == (2, 2, 1, 1, 16)

    class Tokens(nn.Module):
        def __init__(self, backbone: nn.Module) -> None:
            super().__init__()
            self.forward_features = backbone.forward_features

        def forward(self, clip: torch.Tensor) -> torch.Tensor:
            return self.forward_features(clip).places

    model.backbone = Tokens(model.backbone)
    torch.testing.assert_close(backbone_features(model, clips), tokens.mean((1, 2, 3)))
    model.backbone = nn.Identity()
    with pytest.raises(ValueError, match="Identity is not a transformer with features"):
        backbone_features(model, clips)


CLIPS = torch.randint(256, (2, 3, 4, 32, 32), dtype=torch.uint8)
SIZES = dict(arch=dict(embed_dims=16, depth=3, num_heads=2), clip_len=4, img_size=32)
STEM = dict(tubelet=(1, 16, 16))
SCHEMES = {
    "class token": dict(cls="mean"),
    "mean": dict(pool="mean"),
    "tokens": dict(pool="none"),
    "norm after the mean": dict(pool="mean", fc_norm="layer"),
    "frames": dict(frames="pool", cls="mean", block=[dict(pattern="space")]),
    "mean of frames": dict(frames="average", block=[dict(pattern="space")], positions="space"),
    "tokens of frames": dict(
        frames="token",
        pool="none",
        positions="space",
        block=[dict(pattern="causal_time", kernel="recurrence"), dict(pattern="space")],
    ),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_layers_are_normalized_and_pooled_as_the_last_one(model, name: str) -> None:
    torch.manual_seed(0)
    model.backbone = VideoTransformer(**{**SIZES, "stem": STEM}, **SCHEMES[name]).eval()
    whole = backbone_features(model, CLIPS)
    found = backbone_features(model, CLIPS, layers=[0, 2])
    assert found.shape == (2, 32)
    torch.testing.assert_close(found[:, 16:], whole)
    assert (found[:, :16] - whole).abs().max() > 1e-3
    dense = backbone_features(model, CLIPS, tokens=True, layers=[2, 0])
    frames = 1 if name == "mean of frames" else 4
    assert dense.shape == (2, frames, 2, 2, 32)
    if name in ("mean", "tokens", "norm after the mean"):
        last = backbone_features(model, CLIPS, tokens=True)
        torch.testing.assert_close(dense[..., :16], last)
    with pytest.raises(ValueError, match="layers must be 0 to 2, got 3"):
        backbone_features(model, CLIPS, layers=[1, 3])


def test_layers_of_two_encoders(model) -> None:
    """They are counted on; tokens of frames and of places do not go together."""
    torch.manual_seed(0)
    encoders = [dict(frames="pool", cls="mean"), dict(block=[dict(pattern="time")], cls="mean")]
    model.backbone = VideoTransformer(**SIZES, stem=STEM, encoders=encoders).eval()
    found = backbone_features(model, CLIPS, layers=[1, 3, 5])
    torch.testing.assert_close(found[:, 32:], backbone_features(model, CLIPS))
    with pytest.raises(ValueError, match=r"of \(4, 2, 2\), \(4, 1, 1\); choose layers of one"):
        backbone_features(model, CLIPS, tokens=True, layers=[1, 5])

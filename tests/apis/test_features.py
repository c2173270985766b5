import pytest
import torch
from torch import nn

from mmvidformer.apis import backbone_features


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

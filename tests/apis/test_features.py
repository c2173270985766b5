import numpy as np
import pytest
import torch
from torch import nn

from mmvidformer.apis import (
    VideoPipeline,
    backbone_features,
    build_split,
    normalize,
    split_features,
)


def test_features_are_the_backbones_of_each_video(cfg, model, tiny_videos) -> None:
    features, labels = split_features(model, build_split(cfg, "val"), batch_size=3)
    assert labels.tolist() == [0, 1, 2, 0, 1, 2, 0]
    pipeline = VideoPipeline(cfg, clips=1)
    for number, values in enumerate(features):
        clips = pipeline.read(pipeline.open(tiny_videos.root / f"val_{number}.mp4"))["inputs"]
        expected = model.backbone(normalize(model, clips))[0].detach().numpy()
        np.testing.assert_allclose(values, expected, atol=1e-5)


def test_several_views_and_datasets_are_averaged_and_joined(cfg, model) -> None:
    """A sampler may keep several clips, and a dataset may be a wrapper."""
    expected, _ = split_features(model, build_split(cfg, "val"))
    inner = cfg.val_dataloader.dataset
    cfg.val_dataloader.dataset = dict(type="ConcatDataset", datasets=[inner, inner])
    videos = build_split(cfg, "val")
    assert len(videos) == 14
    features, _ = split_features(model, videos)
    np.testing.assert_allclose(features, np.concatenate([expected, expected]), atol=1e-5)
    item = videos[0]
    item["inputs"] = torch.cat([item["inputs"], 255 - item["inputs"]])
    features, _ = split_features(model, [item, item])
    mean = backbone_features(model, item["inputs"]).mean(dim=0)
    np.testing.assert_allclose(features, torch.stack([mean, mean]), atol=1e-5)


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
            return self.forward_features(clip)[0]

    model.backbone = Tokens(model.backbone)
    torch.testing.assert_close(backbone_features(model, clips), tokens.mean((1, 2, 3)))
    model.backbone = nn.Identity()
    with pytest.raises(ValueError, match="Identity is not a transformer with features"):
        backbone_features(model, clips)


def test_training_videos_are_seen_without_augmentation(cfg) -> None:
    cfg.train_dataloader.dataset.pipeline = [dict(type="RandomResizedCrop")]
    one, other = build_split(cfg, "train"), build_split(cfg, "train")
    assert len(one) == 8
    torch.testing.assert_close(one[5]["inputs"], other[5]["inputs"])


def test_some_videos_are_chosen_by_the_seed(cfg) -> None:
    chosen = [build_split(cfg, "val", 4, seed).indices for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert all(len(set(places)) == 4 for places in chosen)
    assert build_split(cfg, "val", 100).indices == list(range(7))
    with pytest.raises(ValueError, match="no dev_dataloader"):
        build_split(cfg, "dev")

"""Maps of frames from a video transformer."""

import torch

import mmvidformer
from mmvidformer.models import FeatureMaps

BACKBONE = {
    "type": "TimeSformer",
    "arch": {"embed_dims": 16, "depth": 2, "num_heads": 2},
    "img_size": 32,
    "clip_len": 1,
    "stem": {"tubelet": (1, 8, 8)},
}


def test_feature_maps_keep_the_grid() -> None:
    torch.manual_seed(0)
    maps = FeatureMaps(BACKBONE)
    for parameter in maps.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    maps.eval()
    images = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        expected = maps(images)
        found = mmvidformer.optimize_for_inference(maps)(images)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_feature_maps_start_from_the_image_model(monkeypatch) -> None:
    loaded = []
    maps = FeatureMaps(BACKBONE)
    monkeypatch.setattr(maps.backbone, "init_weights", lambda: loaded.append("backbone"))
    maps.init_weights()
    assert loaded == ["backbone"]

"""Image models by timm name: the features of each family, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest
import timm
import torch
from torch import nn

from mmvidformer.convert import arguments_of
from mmvidformer.models import TimeSformer, VideoTransformer, ViViT

SIZES = dict(embed_dim=48, depth=2, num_heads=3)
# Whether the pooled features of timm are those of the mean or the class token; None for a head.
FAMILIES = {
    "vit_base_patch16_224.augreg_in21k": True,
    "vit_base_patch16_224.mae": True,
    "deit3_base_patch16_224": True,
    "vit_base_patch14_dinov2": True,
    "vit_giant_patch14_dinov2": True,
    "vit_base_patch14_reg4_dinov2": True,
    "vit_base_patch16_dinov3": True,
    "vit_base_patch16_dinov3_qkvb": True,
    "vit_small_plus_patch16_dinov3": True,
    "vit_base_patch16_clip_224.openai": True,
    "vit_base_patch16_clip_quickgelu_224.openai": True,
    "vit_base_patch16_siglip_224": False,
    "vit_base_patch16_siglip_gap_224": True,
    "vit_so400m_patch14_siglip_224": False,
    "eva_giant_patch14_224": True,
    "eva02_base_patch14_224": True,
}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Callable[..., nn.Module]:
    """Make timm create small models with random weights, the same for each name."""
    real = timm.create_model

    def create(name: str, pretrained: bool = True, num_classes: int = 0) -> Any:
        side = 14 if "patch14" in name else 16
        if not name.startswith(("resnet", "vit_small_r26", "beit")):
            options = dict(SIZES, img_size=(3 * side, 5 * side))
        else:
            options = {}
        model = real(name, pretrained=False, num_classes=num_classes, **options)
        torch.manual_seed(0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.2)
        return model.eval()

    monkeypatch.setattr(timm, "create_model", create)
    return create


def started(name: str, kind: type = VideoTransformer, **options: Any) -> Any:
    side = 14 if "patch14" in name else 16
    torch.manual_seed(1)
    sizes = dict(clip_len=1, img_size=(3 * side, 5 * side))
    model = kind(**{"arch": f"timm:{name}", **sizes, **options})
    model.init_weights()
    return model.eval()


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_features_are_those_of_timm(
    name: str, folded: bool, tiny: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    image = tiny(name)
    model = started(name, **(dict(layer_scale=None, qkv_bias=True) if folded else {}))
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    pixels = torch.randn(2, 3, *image.patch_embed.img_size)
    found = model.forward_features(pixels[:, :, None])
    if model.fc_norm is not None:
        found = [None if x is None else model.fc_norm(x) for x in found]
    prefix, patches = image.fc_norm(image.forward_features(pixels)).split(
        [image.num_prefix_tokens, 15], dim=1
    )
    torch.testing.assert_close(found[0].flatten(1, 3), patches, atol=1e-5, rtol=1e-5)
    if image.num_prefix_tokens:
        torch.testing.assert_close(found[1], prefix, atol=1e-5, rtol=1e-5)
    if FAMILIES[name]:
        torch.testing.assert_close(
            model(pixels[:, :, None]), image(pixels), atol=1e-5, rtol=1e-5
        )

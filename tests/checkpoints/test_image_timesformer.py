"""A TimeSformer initialized from timm's ViT computes that ViT for each frame."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from mmvidformer.models import TimeSformer

ARCH = {"embed_dims": 32, "depth": 2, "num_heads": 4}


@pytest.fixture
def vit(image_vit: Callable) -> nn.Module:
    return image_vit(act_layer=nn.GELU)


def started(vit: nn.Module, folder: Path, **kwargs: object) -> TimeSformer:
    torch.save(vit.state_dict(), folder / "vit.pth")
    model = TimeSformer(
        ARCH,
        img_size=32,
        clip_len=3,
        stem=dict(tubelet=(1, 8, 8)),
        init_from=str(folder / "vit.pth"),
        **kwargs,
    )
    model.init_weights()
    return model.eval()


def frame_by_frame(vit: nn.Module, clip: Tensor) -> tuple[Tensor, Tensor]:
    """The ViT's blocks on each frame, with one class token that gets the mean of its updates."""
    frames = clip.shape[2]
    x = vit._pos_embed(vit.patch_embed(clip.transpose(1, 2).flatten(0, 1)))
    cls, patches = x.unflatten(0, (-1, frames)).split([1, x.shape[1] - 1], dim=2)
    cls = cls[:, 0]
    for block in vit.blocks:
        x = torch.cat([cls[:, None].expand(-1, frames, -1, -1), patches], dim=2)
        update = block.attn(block.norm1(x.flatten(0, 1))).unflatten(0, (-1, frames))
        cls, patches = cls + update[:, :, :1].mean(1), patches + update[:, :, 1:]
        cls = cls + block.mlp(block.norm2(cls))
        patches = patches + block.mlp(block.norm2(patches))
    return vit.norm(patches), vit.norm(cls)


@pytest.mark.parametrize("attention", ["divided_space_time", "axial"])
@torch.no_grad()
def test_extra_attention_adds_nothing_at_first(
    attention: str, vit: nn.Module, tmp_path: Path
) -> None:
    model = started(vit, tmp_path, scheme=attention)
    silent = [
        s for b in model.encoders[0].blocks for s in b.sublayers.values() if hasattr(s.fc, "weight")
    ]
    assert silent
    assert not any(sublayer.fc.weight.any() or sublayer.fc.bias.any() for sublayer in silent)


@torch.no_grad()
def test_divided_attention_gives_the_features_of_each_frame(vit: nn.Module, tmp_path: Path) -> None:
    model = started(vit, tmp_path)
    clip = torch.randn(2, 3, 3, 32, 32)
    tokens = model.forward_features(clip)
    patches, expected = frame_by_frame(vit, clip)
    torch.testing.assert_close(tokens.places.flatten(2, 3), patches, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(tokens.prefix, expected, atol=1e-5, rtol=1e-5)
    # On a clip of one image, and on a single frame, that is the ViT itself.
    image = clip[:, :, 0]
    features = vit.forward_features(image)
    for still in (image[:, :, None], image[:, :, None].expand(-1, -1, 3, -1, -1)):
        tokens = model.forward_features(still)
        torch.testing.assert_close(tokens.prefix, features[:, :1], atol=1e-5, rtol=1e-5)
        for frame in tokens.places.flatten(2, 3).unbind(1):
            torch.testing.assert_close(frame, features[:, 1:], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_space_only_gives_the_mean_of_the_frames(vit: nn.Module, tmp_path: Path) -> None:
    model = started(vit, tmp_path, scheme="space_only")
    clip = torch.randn(2, 3, 3, 32, 32)
    tokens = [vit._pos_embed(vit.patch_embed(frame)) for frame in clip.unbind(2)]
    mean = torch.stack([vit.blocks(x) for x in tokens]).mean(0)
    torch.testing.assert_close(model(clip), vit.norm(mean)[:, 0], atol=1e-5, rtol=1e-5)


def test_attention_over_time_starts_as_a_copy(vit: nn.Module, tmp_path: Path) -> None:
    for block in started(vit, tmp_path).encoders[0].blocks:
        time, space = block.sublayers["time"], block.sublayers["space"]
        for part in ("attn", "norm"):
            for name, value in getattr(space, part).named_parameters():
                torch.testing.assert_close(getattr(time, part).get_parameter(name), value)
                assert value.any()

"""Backbones whose output joins several blocks."""

from pathlib import Path

import pytest
import torch

from mmvidformer.checkpoints import init_from_image
from mmvidformer.errors import UserError
from mmvidformer.models import VideoTransformer, ViViT

ARCH = dict(embed_dims=32, depth=4, num_heads=4)
OPTIONS = dict(arch=ARCH, img_size=32, clip_len=4, stem=dict(tubelet=(1, 8, 8)))


def build(**options) -> VideoTransformer:
    torch.manual_seed(0)
    return VideoTransformer(**{**OPTIONS, "pool": "none", **options}).eval()


@pytest.fixture
def clip() -> torch.Tensor:
    return torch.randn(2, 3, 4, 32, 32, generator=torch.Generator().manual_seed(1))


def test_blocks_are_those_of_timm(tmp_path: Path) -> None:
    """``get_intermediate_layers`` of an image model, on a clip of one frame."""
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    image = timm.models.VisionTransformer(
        img_size=32,
        patch_size=8,
        embed_dim=32,
        depth=4,
        num_heads=4,
        num_classes=0,
        class_token=False,
        global_pool="avg",
        fc_norm=False,
    ).eval()
    torch.save(image.state_dict(), tmp_path / "vit.pth")
    model = build(clip_len=1, out_layers=(1, 3))
    init_from_image(model, tmp_path / "vit.pth")
    picture = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        wanted = image.get_intermediate_layers(picture, n=[1, 3], norm=True)
        tokens = model(picture[:, :, None])
    assert model.embed_dims == tokens.shape[-1] == 64
    torch.testing.assert_close(
        tokens.flatten(1, 3), torch.cat(wanted, dim=-1), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("norm", [None, "layer"])
def test_the_last_block_is_the_output(norm: str | None, clip: torch.Tensor) -> None:
    joined, plain = build(out_layers=(0, 3), fc_norm=norm), build(fc_norm=norm)
    with torch.no_grad():
        tokens, wanted = joined(clip), plain(clip)
        outputs: list = []
        assert joined.forward_features(clip, outputs).places.shape == tokens.shape
    torch.testing.assert_close(tokens[..., 32:], wanted)
    assert len(outputs) == 4


def test_clips_of_several_lengths(clip: torch.Tensor) -> None:
    model = build(out_layers=(1, 3))
    valid = torch.tensor([[True] * 4, [True, True, False, False]])
    with torch.no_grad():
        whole, short = model(clip, valid=valid)
        torch.testing.assert_close(whole, model(clip[:1])[0])
        torch.testing.assert_close(short, model(clip[1:, :, :2])[0])


def test_frames_that_are_averaged_have_their_mean(clip: torch.Tensor) -> None:
    model = build(out_layers=(1, 3), frames="average")
    with torch.no_grad():
        assert model(clip).shape == (2, 1, 4, 4, 64)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(out_layers=(4,)), "layers must be 0 to 3, got 4"),
        (dict(out_layers=(1,), pool="mean"), "out_layers needs pool='none', got 'mean'"),
        (dict(out_layers=(1,), static=0.1), "out_layers cannot be used with static"),
    ],
    ids=["number", "pool", "static"],
)
def test_what_does_not_go_together(options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(**options)


def test_streams_are_refused() -> None:
    said = [str(conflict) for conflict in build(out_layers=(1, 3)).conflicts]
    assert any("joins several blocks; use out_layers=()" in line for line in said)


def test_encoders_of_other_grids_cannot_be_joined(clip: torch.Tensor) -> None:
    model = ViViT(
        ARCH, scheme="factorized_encoder", temporal_depth=2, img_size=32, clip_len=4,
        stem=dict(tubelet=(1, 8, 8)), pool="none", out_layers=(3, 5),
    )  # fmt: skip
    with pytest.raises(UserError, match="layers 3 5 have tokens"):
        model(clip)

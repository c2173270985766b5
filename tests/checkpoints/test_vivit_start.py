"""A ViViT starts from an image model with the weights that scenic gives it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mmvidformer.checkpoints import init_from_image
from mmvidformer.checkpoints.flax import from_scenic
from mmvidformer.models import ViViT

FILE = Path(__file__).parents[1] / "golden" / "vivit_start.npz"
ARCH = dict(embed_dims=8, depth=1, num_heads=2)
SCHEMES = {
    "m1": "spacetime",
    "m2": "factorized_encoder",
    "m3": "factorized_self_attention_ts",
    "m4": "factorized_dot_product",
}


def arrays_of(case: str) -> dict[str, np.ndarray]:
    arrays = np.load(FILE)
    start = f"{case}:"
    return {n.removeprefix(start): arrays[n] for n in arrays.files if n.startswith(start)}


@pytest.fixture
def image_file(tmp_path: Path) -> Path:
    np.savez(tmp_path / "image.npz", **arrays_of("image"))
    return tmp_path / "image.npz"


def make(scheme: str, side: int = 8, **options: object) -> ViViT:
    depth = dict(temporal_depth=1) if scheme == "factorized_encoder" else {}
    stem = dict(tubelet=(2, 4, 4))
    return ViViT(ARCH, scheme, img_size=side, clip_len=4, stem=stem, **depth, **options)


@pytest.mark.parametrize("case", ["m1", "m1_mean", "m2", "m2_mean", "m2_large", "m3", "m4"])
def test_equals_scenics_start(case: str, image_file: Path) -> None:
    variant = case.partition("_")[2]
    scheme, side = SCHEMES[case[:2]], 12 if variant == "large" else 8
    options = dict(pool="mean") if variant == "mean" else {}
    temporal = dict(temporal="copy") if case == "m3" else {}  # scenic's default
    model = make(scheme, side, init_from=dict(source=image_file, **temporal), **options)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    model.init_weights()
    weights = {name: torch.from_numpy(x) for name, x in arrays_of(case).items()}
    official = from_scenic(weights, grid=model.grid, scheme=scheme).state
    for name, x in model.state_dict().items():
        if name.startswith("encoders.1."):  # no weights of the image model, in scenic neither
            torch.testing.assert_close(x, before[name], rtol=0, atol=0)
        else:
            torch.testing.assert_close(x, official[f"backbone.{name}"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("cls_token", ["zero", "copy"])
@pytest.mark.parametrize("temporal_depth", [0, 1])
def test_class_token_of_frames(cls_token: str, temporal_depth: int, image_file: Path) -> None:
    """It is copied by name only; from a video model of the same kind in any case."""
    options = dict(img_size=8, clip_len=4, stem=dict(tubelet=(2, 4, 4)))
    model, other = (ViViT(ARCH, temporal_depth=temporal_depth, **options) for _ in range(2))
    init_from_image(model, image_file, cls_token=cls_token)
    token, image_token = model.encoders[0].cls_token, torch.from_numpy(arrays_of("image")["cls"])
    assert torch.equal(token, image_token if cls_token == "copy" else torch.zeros(1, 1, 8))
    with torch.no_grad():
        token.fill_(3.0)
    path = image_file.with_name("video.pth")
    torch.save(model.state_dict(), path)
    init_from_image(other, path, cls_token=cls_token)
    assert torch.equal(other.encoders[0].cls_token, token)

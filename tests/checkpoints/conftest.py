"""Fixtures of the converters' tests."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from timm.models import VisionTransformer
from torch import nn

WIDTH, DEPTH, HEADS, PATCH = 32, 2, 4, 8


@pytest.fixture
def image_vit() -> Callable[..., VisionTransformer]:
    """Make timm's ViT with random weights, biases and norms too, and ViViT's GELU."""

    def make(**options: object) -> VisionTransformer:
        torch.manual_seed(0)
        sizes = {"img_size": 32, "patch_size": PATCH, "embed_dim": WIDTH, "depth": DEPTH}
        act = partial(nn.GELU, approximate="tanh")
        model = VisionTransformer(**sizes | {"num_heads": HEADS, "act_layer": act} | options)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.2)
        return model.eval()

    return make


@pytest.fixture
def google_arrays() -> Callable[..., dict[str, np.ndarray]]:
    """Make a Google image ViT for 32-pixel images with random weights, as flat arrays."""

    def make(big_vision: bool = False, cls: bool = True) -> dict[str, np.ndarray]:
        head = WIDTH // HEADS
        attention, norm, mlp = (0, 1, 0) if big_vision else (1, 2, 3)
        slots = 16 + (cls and not big_vision)
        table = "pos_embedding" if big_vision else "Transformer/posembed_input/pos_embedding"
        shapes = {
            "embedding/kernel": (PATCH, PATCH, 3, WIDTH),
            "embedding/bias": (WIDTH,),
            table: (1, slots, WIDTH),
            "Transformer/encoder_norm/scale": (WIDTH,),
            "Transformer/encoder_norm/bias": (WIDTH,),
            "head/kernel": (WIDTH, 7),
            "head/bias": (7,),
        }
        if cls:
            shapes["cls"] = (1, 1, WIDTH)
        for i in range(DEPTH):
            block = f"Transformer/encoderblock_{i}"
            for part in ("query", "key", "value"):
                stem = f"{block}/MultiHeadDotProductAttention_{attention}/{part}"
                shapes[f"{stem}/kernel"] = (WIDTH, HEADS, head)
                shapes[f"{stem}/bias"] = (HEADS, head)
            stem = f"{block}/MultiHeadDotProductAttention_{attention}/out"
            shapes |= {f"{stem}/kernel": (HEADS, head, WIDTH), f"{stem}/bias": (WIDTH,)}
            for number in (0, norm):
                for part in ("scale", "bias"):
                    shapes[f"{block}/LayerNorm_{number}/{part}"] = (WIDTH,)
            for number, size in enumerate([(WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]):
                stem = f"{block}/MlpBlock_{mlp}/Dense_{number}"
                shapes |= {f"{stem}/kernel": size, f"{stem}/bias": size[1:]}
        rng = np.random.default_rng(0)
        return {
            name: rng.normal(scale=0.2, size=shape).astype("float32")
            for name, shape in shapes.items()
        }

    return make


@pytest.fixture
def image_model(image_vit: Callable) -> nn.Module:
    return image_vit()


@pytest.fixture
def image_file(image_model: nn.Module, tmp_path: Path) -> Path:
    torch.save(image_model.state_dict(), tmp_path / "vit.pth")
    return tmp_path / "vit.pth"

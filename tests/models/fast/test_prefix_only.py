"""The last block computes only what the class token needs, if that alone is read."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mmvidformer.models import TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.fast.prefix_only import compute_prefix_only

SIZES = dict(arch=dict(embed_dims=12, depth=2, num_heads=2), img_size=32, clip_len=4)
LINEAR = [{"pattern": "joint", "kernel": "linear"}]
MODELS = {
    "divided": (TimeSformer, dict(drop_path_rate=0.5)),
    "joint": (TimeSformer, dict(scheme="joint_space_time", with_cp=True)),
    "space only": (TimeSformer, dict(scheme="space_only", drop_path_rate=0.5)),
    "ViViT 1": (ViViT, {}),
    "ViViT 2": (ViViT, dict(scheme="factorized_encoder", temporal_depth=2)),
    "linear": (VideoTransformer, dict(cls="mean", block=LINEAR)),
}


def step(model: VideoTransformer, clip: Tensor) -> tuple[list[Tensor | None], int]:
    """Output and gradients for the same draws, and the multiplications."""
    torch.manual_seed(1)
    model.zero_grad()
    with FlopCounterMode(display=False) as flops:
        out = model(clip)
        out.square().sum().backward()
    return [out.detach(), *(x.grad for x in model.parameters())], flops.get_total_flops()


@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_gradients_stay(name: str) -> None:
    torch.manual_seed(0)
    model_type, options = MODELS[name]
    model = model_type(**SIZES, **options).double().train()
    clip = torch.randn(2, 3, 4, 32, 32, dtype=torch.double)
    expected, more = step(model, clip)
    compute_prefix_only(model)
    values, fewer = step(model, clip)
    for value, other in zip(values, expected, strict=True):
        torch.testing.assert_close(value, other)
    assert fewer < more


def build() -> VideoTransformer:
    model = TimeSformer(**SIZES).train()
    compute_prefix_only(model)
    return model


def test_who_reads_the_grid_gets_it() -> None:
    model, clip = build(), torch.randn(1, 3, 4, 32, 32)
    outputs: list = []
    tokens = model.forward_features(clip, outputs)
    assert tokens.places.shape == outputs[-1].places.shape == (1, 4, 2, 2, 12)


def part_outputs(model: VideoTransformer, part: nn.Module, clip: Tensor) -> list:
    """Outputs of a part in a forward pass."""
    outputs: list = []
    part.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    model(clip)
    return outputs


def test_hooks_get_the_grid() -> None:
    clip = torch.randn(1, 3, 4, 32, 32)
    model = build()
    (tokens,) = part_outputs(model, model.encoders[0].blocks[-1], clip)
    assert tokens.shape == (1, 1 + 16, 12)
    model = build()
    (normalized,) = part_outputs(model, model.encoders[0].norm, clip)
    assert normalized.shape == (1, 1 + 16, 12)
    model = build()
    (tokens,) = part_outputs(model, model.encoders[0], clip)
    assert tokens.places.shape == (1, 4, 2, 2, 12) and tokens.prefix.shape == (1, 1, 12)

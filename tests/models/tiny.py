"""Sizes of tiny models, random weights for them, and random options."""

import pytest
import torch
from hypothesis import HealthCheck, Phase, settings
from torch import nn

ARCH = dict(embed_dims=16, depth=2, num_heads=4, mlp_ratio=2)
SIZE = dict(arch=ARCH, clip_len=4, img_size=16)
STEM = dict(tubelet=(1, 8, 8))
needs_one_graph = pytest.mark.skipif(
    torch.__version__ < "2.7", reason="graphs of PyTorch 2.6 end at properties of named tuples"
)
# Of recent image and video models, but rotary positions.
PARTS = dict(
    cls="mean",
    registers=3,
    qk_norm="layer",
    qkv_bias="qv",
    layer_scale=0.1,
    norm_pre=True,
    mlp=dict(type="swiglu", norm=True),
    fc_norm="layer",
)


def perturb(model: nn.Module) -> nn.Module:
    """Move weights away from zeros, behind which gradients vanish."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def same_examples(count: int) -> settings:
    """Draw as many examples, the same ones in each run, however many are rejected."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

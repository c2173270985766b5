"""Sizes of tiny models, and random weights for them."""

import torch
from torch import nn

ARCH = dict(embed_dims=16, depth=2, num_heads=4, mlp_ratio=2)
SIZE = dict(arch=ARCH, clip_len=4, img_size=16)
STEM = dict(tubelet=(1, 8, 8))


def perturb(model: nn.Module) -> nn.Module:
    """Move weights away from zeros, behind which gradients vanish."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model

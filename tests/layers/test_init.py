import math

import pytest
import torch

from mmvidformer.layers import Attention, Mlp, PositionEmbedding, TubeletEmbedding, init_flax_vit


def test_flax_initialization() -> None:
    torch.manual_seed(0)
    attn, mlp = Attention(64, 4), Mlp(64, 256)
    embed, positions = TubeletEmbedding(128, (2, 8, 8)), PositionEmbedding(64, (2, 8, 8))
    for module in (attn, mlp, embed, positions):
        module.apply(init_flax_vit)

    limit = math.sqrt(6 / (64 + 64))  # Xavier of each 64 x 64 kernel, not of the 192 x 64 stack
    for kernel in (*attn.qkv.weight.chunk(3), attn.proj.weight):
        assert kernel.abs().max().item() == pytest.approx(limit, rel=0.01)
        assert kernel.std().item() == pytest.approx(limit / math.sqrt(3), rel=0.05)
    assert attn.qkv.bias.abs().max() == 0
    assert mlp.fc1.weight.abs().max().item() == pytest.approx(math.sqrt(6 / 320), rel=0.01)
    assert mlp.fc1.bias.std().item() == pytest.approx(1e-6, rel=0.2)
    assert embed.proj.weight.std().item() == pytest.approx((3 * 2 * 64) ** -0.5, rel=0.03)
    assert positions.thw.std().item() == pytest.approx(0.02, rel=0.05)

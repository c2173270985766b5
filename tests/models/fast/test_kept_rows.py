"""Updates that stochastic depth drops are not computed."""

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from mmvidformer.layers import Encoder, EncoderConfig, SubLayer
from mmvidformer.layers.tokens import Places, Tokens
from mmvidformer.models.fast.kept_rows import compute_kept_rows

COMPOSITIONS: dict[str, dict] = {
    "class token": dict(cls="mean", layer_scale=0.5),
    "unscaled": dict(drop_path_rule="unscaled"),
    "parallel": dict(parallel=True, block=("time", "space")),
    "a factor by group": dict(drop_path_rule="group", block=("time", "space")),
    "a layer whose bias dropped updates get": dict(block=(dict(pattern="time", fc=True),)),
    "rotary positions": dict(rope={"type": "axial"}, positions="none"),
    "recomputed": dict(with_cp=True),
    "frames of a clip": dict(frames="pool", cls="mean"),
}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_updates_that_are_dropped_are_not_computed(composition: str, masked: bool) -> None:
    """Same draws, same outputs and gradients, with fewer multiplications."""
    torch.manual_seed(0)
    options = dict(arch=dict(embed_dims=12, depth=3, num_heads=2), drop_path_rate=0.5)
    options |= COMPOSITIONS[composition]
    rows = [
        SubLayer(**row) if isinstance(row, dict) else SubLayer(row)
        for row in options.pop("block", ("joint",))
    ]
    encoder = Encoder(EncoderConfig(block=rows, **options), (2, 3, 3)).double().train()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    places = None
    grid = torch.randn(8, 2, 3, 3, 12, dtype=torch.double)
    if masked:
        numbers = torch.stack([torch.randperm(9)[:4] for _ in range(8)])
        places = Places(numbers, (3, 3))
        grid = grid.flatten(2, 3)[:, :, None, :4]
    grid = grid.clone().requires_grad_()
    leaves = [grid, *encoder.parameters()]

    def run() -> tuple[list[Tensor], int]:
        torch.manual_seed(1)
        with FlopCounterMode(display=False) as flops:
            tokens = encoder(Tokens.of(grid, kept=places)).tensor
            tokens.square().sum().backward()
        gradients = [leaf.grad for leaf in leaves]
        for leaf in leaves:
            leaf.grad = None
        return [tokens, *gradients], flops.get_total_flops()

    values, more = run()
    compute_kept_rows(encoder)
    values_of_kept, fewer = run()
    torch.testing.assert_close(values_of_kept, values)
    assert fewer < more


@pytest.mark.parametrize("rate", [0.5, 1 - 1e-9])
def test_mixed_precision_and_a_batch_that_is_dropped(rate: float) -> None:
    """All weights have gradients, also if nothing is kept, and tokens keep their precision."""
    torch.manual_seed(0)
    config = EncoderConfig(dict(embed_dims=8, depth=2, num_heads=2), drop_path_rate=rate)
    encoder = Encoder(config, (1, 2, 2)).train()
    compute_kept_rows(encoder)
    with torch.autocast("cpu", torch.bfloat16):
        grid = encoder(Tokens.of(torch.randn(8, 1, 2, 2, 8))).places
    grid.square().sum().backward()
    assert grid.dtype == torch.float32
    assert all(parameter.grad is not None for parameter in encoder.parameters())

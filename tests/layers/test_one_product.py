"""Training steps multiply ``fc(proj(x))`` of an attention sub-layer once."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mmvidformer.layers import EncoderConfig, SubLayer, TransformerBlock
from mmvidformer.layers.block import AttentionSubLayer
from mmvidformer.layers.linear import add_lora
from mmvidformer.models.cpu import optimize_for_training

D, GRID = 8, (2, 3, 4)


def build(cls: str = "skip", layer_scale: float | None = None, **options: Any) -> TransformerBlock:
    torch.manual_seed(0)
    arch = dict(embed_dims=D, depth=1, num_heads=2)
    row = SubLayer("time", cls=cls, fc=True)
    block = TransformerBlock(
        EncoderConfig(arch, layer_scale=layer_scale, **options), [row], drop_path_rate=0.5
    )
    for parameter in block.sublayers["time"].parameters():
        nn.init.normal_(parameter, std=0.3)
    return block.train()


def step(block: TransformerBlock, dtype: torch.dtype | None = None) -> tuple[list, int]:
    """Updates and gradients of a sub-layer for the same draws, and its multiplications."""
    torch.manual_seed(1)
    grid, cls = torch.randn(4, *GRID, D), torch.randn(4, 1, D)
    weight = next(block.parameters())
    inputs = [x.to(weight.dtype).requires_grad_() for x in (grid, cls)]
    sublayer = block.sublayers["time"]
    mixed = torch.autocast("cpu", dtype, enabled=dtype is not None)
    with FlopCounterMode(display=False) as flops, mixed:
        updates = [update for update in sublayer(*inputs) if update is not None]
    leaves = [*inputs, *(x for x in sublayer.parameters() if x.requires_grad)]
    loss = sum((update.double() ** 2).sum() for update in updates)
    grads = torch.autograd.grad(loss, leaves, allow_unused=True)
    return [*updates, *grads], flops.get_total_flops()


def two_products(run: Callable, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(AttentionSubLayer, "_one_product", lambda self, grid: False)
        return run()


@pytest.mark.parametrize("cls", ["skip", "mean", "global"])
@pytest.mark.parametrize("rule", ["clip", "group"])
@pytest.mark.parametrize("onednn", [False, True])
def test_outputs_and_gradients_stay(
    cls: str, rule: str, onednn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = build(cls, 0.5, drop_path_rule=rule).to(torch.float32 if onednn else torch.float64)
    expected, more = two_products(lambda: step(block), monkeypatch)
    if onednn:
        optimize_for_training(block)
    values, fewer = step(block)
    torch.testing.assert_close(values, expected, rtol=1e-4 if onednn else 1e-8, atol=1e-4)
    if not onednn:  # whose operator the counter does not know
        assert fewer < more


def test_mixed_precision_changes_by_its_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    block = build("mean")
    expected, _ = two_products(lambda: step(block, torch.bfloat16), monkeypatch)
    values, _ = step(block, torch.bfloat16)
    for value, other in zip(values, expected, strict=True):
        assert (value - other).norm() <= 0.03 * other.norm()


def add_hook(sublayer: AttentionSubLayer) -> None:
    sublayer.fc.register_forward_hook(lambda *_: None)


def add_hook_between(sublayer: AttentionSubLayer) -> None:
    sublayer.attn.register_forward_hook(lambda *_: None)


def replace_forward(sublayer: AttentionSubLayer) -> None:
    sublayer.attn.proj.forward = lambda x: nn.Linear.forward(sublayer.attn.proj, x)


LEFT_ALONE: dict[str, Callable[[AttentionSubLayer], object]] = {
    "evaluation": lambda sublayer: sublayer.eval(),
    "hook": add_hook,
    "hook between": add_hook_between,
    "replaced forward": replace_forward,
    "LoRA": lambda sublayer: add_lora(sublayer, 1, layers=["proj"]),
    "dropout between": lambda sublayer: setattr(sublayer.attn.proj_drop, "p", 0.1),
}


@pytest.mark.parametrize("change", LEFT_ALONE)
def test_what_lies_between_or_wraps_the_layers_takes_effect(change: str) -> None:
    sublayer = build().sublayers["time"]
    grid = torch.zeros(4, *GRID, D)
    assert sublayer._one_product(grid)
    assert not sublayer._one_product(grid[:, :1, :1, :1])  # few tokens: two products cost less
    LEFT_ALONE[change](sublayer)
    assert not sublayer._one_product(grid)


def test_a_recomputed_block_has_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    block = build()
    grid = torch.randn(4, *GRID, D, requires_grad=True)

    def gradient() -> Tensor:
        torch.manual_seed(2)
        run = torch.utils.checkpoint.checkpoint
        return torch.autograd.grad(run(block, grid, use_reentrant=False)[0].sum(), grid)[0]

    torch.testing.assert_close(gradient(), two_products(gradient, monkeypatch))

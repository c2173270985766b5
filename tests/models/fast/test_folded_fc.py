"""Training steps multiply ``fc(proj(x))`` of an attention sub-layer once."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from mmvidformer.layers import AttentionSubLayer, EncoderConfig, SubLayer, TransformerBlock
from mmvidformer.layers.linear import add_lora
from mmvidformer.layers.tokens import Context, Grid
from mmvidformer.models.fast import folded_fc
from mmvidformer.models.fast.folded_fc import fold_fc, is_worth_it
from mmvidformer.models.fast.onednn import multiply_in_onednn

DIM = 8
GRID = Grid(2, 3, 4, prefix=1)


@pytest.fixture(autouse=True)
def few_products_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(folded_fc, "LEAST_SAVED", DIM**3)
    yield


def build(cls: str = "skip", **options: Any) -> TransformerBlock:
    torch.manual_seed(0)
    arch = dict(embed_dims=DIM, depth=1, num_heads=2)
    row = SubLayer("time", cls=cls, fc=True)
    block = TransformerBlock(EncoderConfig(arch, **options), [row], drop_path_rate=0.5)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.3)
    fold_fc(block)
    return block.train()


def run_step(block: TransformerBlock, dtype: torch.dtype | None = None) -> tuple[list[Tensor], int]:
    """Return output and gradients of a block for the same draws, and its multiplications."""
    torch.manual_seed(1)
    tokens = torch.randn(4, GRID.num_tokens, DIM).to(next(block.parameters())).requires_grad_()
    mixed = torch.autocast("cpu", dtype, enabled=dtype is not None)
    with FlopCounterMode(display=False) as flops, mixed:
        output = block(tokens, Context(GRID))
        output.double().square().sum().backward()
    leaves = [tokens, *block.parameters()]
    gradients = [leaf.grad for leaf in leaves]
    block.zero_grad()
    return [output, *gradients], flops.get_total_flops()


def run_with_two_products(run: Callable, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(folded_fc, "is_worth_it", lambda sublayer, tokens: False)
        return run()


@pytest.mark.parametrize("cls", ["skip", "mean", "global"])
@pytest.mark.parametrize("rule", ["clip", "group"])
@pytest.mark.parametrize("onednn", [False, True])
def test_outputs_and_gradients_stay(
    cls: str, rule: str, onednn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = build(cls, layer_scale=0.5, drop_path_rule=rule)
    block.to(torch.float32 if onednn else torch.float64)
    expected, more = run_with_two_products(lambda: run_step(block), monkeypatch)
    if onednn:
        multiply_in_onednn(block)
    values, fewer = run_step(block)
    torch.testing.assert_close(values, expected, rtol=1e-4 if onednn else 1e-8, atol=1e-4)
    if not onednn:  # whose operator the counter does not know
        assert fewer < more


def test_mixed_precision_changes_by_its_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    block = build("mean")
    run = lambda: run_step(block, dtype=torch.bfloat16)  # noqa: E731
    expected, _ = run_with_two_products(run, monkeypatch)
    values, _ = run()
    for value, other in zip(values, expected, strict=True):
        assert (value - other).norm() <= 0.03 * other.norm()


def add_hook(part: nn.Module) -> None:
    part.register_forward_hook(lambda *_: None)


def replace_forward(part: nn.Module) -> None:
    part.forward = lambda x: type(part).forward(part, x)


def quantize(sublayer: AttentionSubLayer) -> None:
    class Quantized(nn.Parameter): ...

    sublayer.attn.proj.weight = Quantized(sublayer.attn.proj.weight)


def with_dropout(sublayer: AttentionSubLayer, rate: float) -> nn.Module:
    sublayer.attn.proj_drop = nn.Dropout(rate)
    return sublayer.attn.proj_drop


APART: dict[str, Callable[[AttentionSubLayer], object]] = {
    "evaluation": lambda sublayer: sublayer.eval(),
    "hook": lambda sublayer: add_hook(sublayer.fc),
    "hook before": lambda sublayer: add_hook(sublayer.attn.proj),
    "hook between": lambda sublayer: add_hook(sublayer.attn),
    "hook of dropout": lambda sublayer: add_hook(with_dropout(sublayer, 0.0)),
    "replaced forward": lambda sublayer: replace_forward(sublayer.attn.proj),
    "replaced attention": lambda sublayer: replace_forward(sublayer.attn),
    "LoRA": lambda sublayer: add_lora(sublayer, 1, layers=["proj"]),
    "quantizer": quantize,
    "dropout between": lambda sublayer: with_dropout(sublayer, 0.1),
    "no bias": lambda sublayer: setattr(sublayer.fc, "bias", None),
}


@pytest.mark.parametrize("change", APART)
def test_what_lies_between_or_wraps_the_layers_takes_effect(change: str) -> None:
    sublayer = build().sublayers["time"]
    tokens = torch.zeros(4, GRID.num_tokens, DIM)
    assert is_worth_it(sublayer, tokens)
    assert not is_worth_it(sublayer, tokens[:, :2])  # two products of few tokens cost less
    APART[change](sublayer)
    assert not is_worth_it(sublayer, tokens)


def test_transforms_and_compilers_see_two_products() -> None:
    sublayer = build().sublayers["time"]

    def is_apart(tokens: Tensor) -> Tensor:
        return tokens * (not is_worth_it(sublayer, tokens))

    ones = torch.ones(1, 4, GRID.num_tokens, DIM)
    assert not is_apart(ones[0]).any()
    assert torch.func.vmap(is_apart)(ones).all()


def test_a_recomputed_block_has_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    block = build("mean")
    tokens = torch.randn(4, GRID.num_tokens, DIM, requires_grad=True)

    def gradient() -> Tensor:
        torch.manual_seed(2)
        output = checkpoint(block, tokens, Context(GRID), use_reentrant=False)
        return torch.autograd.grad(output.sum(), tokens)[0]

    torch.testing.assert_close(gradient(), run_with_two_products(gradient, monkeypatch))

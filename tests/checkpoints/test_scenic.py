"""Scenic's ViViT. The golden files compare the logits."""

import pytest
import torch

from mmvidformer.checkpoints.flax import from_scenic
from mmvidformer.checkpoints.keymap import State

D, HEADS, HIDDEN = 8, 2, 12
GRID = (2, 2, 3)


def attention(stem: str) -> State:
    shape = (D, HEADS, D // HEADS)
    state = {f"{stem}/{p}/kernel": torch.randn(shape) for p in ("query", "key", "value")}
    state |= {f"{stem}/{p}/bias": torch.randn(shape[1:]) for p in ("query", "key", "value")}
    return state | {f"{stem}/out/kernel": torch.randn(*shape[1:], D), f"{stem}/out/bias": vector()}


def vector() -> torch.Tensor:
    return torch.randn(D)


def norm(stem: str) -> State:
    return {f"{stem}/scale": vector(), f"{stem}/bias": vector()}


def mlp(stem: str) -> State:
    return {
        f"{stem}/Dense_0/kernel": torch.randn(D, HIDDEN),
        f"{stem}/Dense_0/bias": torch.randn(HIDDEN),
        f"{stem}/Dense_1/kernel": torch.randn(HIDDEN, D),
        f"{stem}/Dense_1/bias": vector(),
    }


def scenic(divided: bool = False, cls: bool = False, kernel: tuple = (2, 4, 4)) -> State:
    block = "Transformer/encoderblock_0"
    state = {"embedding/kernel": torch.randn(*kernel, 3, D), "embedding/bias": vector()}
    state["Transformer/posembed_input/pos_embedding"] = torch.randn(1, 12 + cls, D)
    if cls:
        state["cls"] = torch.randn(1, 1, D)
    if divided:
        for view in ("space", "time"):
            state |= norm(f"{block}/LayerNorm_{view}")
            state |= attention(f"{block}/MultiHeadDotProductAttention_{view}")
        state |= norm(f"{block}/LayerNorm_mlp") | mlp(f"{block}/MlpBlock")
    else:
        state |= norm(f"{block}/LayerNorm_0") | norm(f"{block}/LayerNorm_1")
        state |= attention(f"{block}/MultiHeadDotProductAttention_0") | mlp(f"{block}/MlpBlock_0")
    return state | norm("Transformer/encoder_norm")


@pytest.mark.parametrize("prefix", ["", "optimizer/target/", "params/", "optimizer/target/params/"])
def test_prefixes_and_train_state(prefix: str) -> None:
    plain = scenic(cls=True)
    state = {prefix + name: value for name, value in plain.items()}
    state |= {"global_step": torch.tensor(3), "optimizer/state/sublayer": torch.tensor(3)}
    state["optimizer/state/param_states/cls/momentum"] = torch.zeros(1)
    result = from_scenic(state, grid=GRID)
    assert len(result.ignored) == 3
    assert result.missing == ["cls_head.fc_cls.weight", "cls_head.fc_cls.bias"]
    assert result.num_heads == HEADS
    kernel = result.state["backbone.embed.proj.weight"]
    assert torch.equal(kernel[5, 1, 1], plain["embedding/kernel"][1, :, :, 1, 5])


def test_qkv_rows_are_query_key_value_and_heads_in_order() -> None:
    state = scenic(cls=True)
    block = "backbone.encoders.0.blocks.0.sublayers.joint"
    weight = from_scenic(state, grid=GRID).state[f"{block}.attn.qkv.weight"]
    stem = "Transformer/encoderblock_0/MultiHeadDotProductAttention_0"
    head = D // HEADS
    # second head of the key
    rows = weight[D + head : D + 2 * head]
    assert torch.equal(rows, state[f"{stem}/key/kernel"][:, 1].T)


@pytest.mark.parametrize(
    ("options", "scheme", "assumed", "sublayer"),
    [
        (dict(cls=True), "spacetime", True, "joint"),
        (dict(), "spacetime", True, "joint"),
        (dict(), "factorized_dot_product", False, "time_space"),
        (dict(divided=True), "factorized_self_attention_ts", True, "time"),
        (dict(divided=True), "factorized_self_attention", False, "space"),
    ],
)
def test_schemes(options: dict, scheme: str, assumed: bool, sublayer: str) -> None:
    result = from_scenic(scenic(**options), GRID, None if assumed else scheme)
    assert result.scheme == scheme
    assert f"backbone.encoders.0.blocks.0.sublayers.{sublayer}.attn.proj.bias" in result.state
    assert len(result.notes) == (assumed and "cls" not in options)


def test_scheme_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="'factorized_dot_product' does not fit"):
        from_scenic(scenic(cls=True), GRID, "factorized_dot_product")


def test_frame_kernel_becomes_a_tubelet_of_one_frame() -> None:
    result = from_scenic(scenic(kernel=(4, 4)), grid=GRID)
    assert result.state["backbone.embed.proj.weight"].shape == (D, 3, 1, 4, 4)


def test_ambiguous_grid_must_be_given() -> None:
    with pytest.raises(ValueError, match=r"12 vectors does not fit the grid .*; give the grid"):
        from_scenic(scenic())


@pytest.mark.parametrize(
    "name",
    [
        "Transformer/posembed_input/pos_embedding",
        "embedding/kernel",
        "Transformer/encoderblock_0/MultiHeadDotProductAttention_0/query/kernel",
    ],
)
def test_missing_and_unknown_names_are_listed(name: str) -> None:
    state = scenic()
    state["odd/name"] = state.pop(name)
    with pytest.raises(ValueError, match=rf"missing.*{name}.*unknown.*odd/name"):
        from_scenic(state, grid=GRID)

"""Layers of random sizes and options: types, layouts, single rows, ``vmap``."""

import warnings

import pytest
import torch
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from mmvidformer.layers import (
    FIXATIONS,
    KERNELS,
    NORMS,
    PATTERNS,
    SHIFTS,
    Attention,
    Fixation,
    Mlp,
    PositionEmbedding,
    TubeletEmbedding,
    build_shift,
    resize_positions,
)
from mmvidformer.layers.kernels.linear import FeatureMap
from mmvidformer.layers.resize import RESIZE_RULES
from tests.layers.pairs import run
from tests.properties import check_rows

AXES = st.tuples(*[st.sampled_from([1, 2, 3, 5])] * 3)
SMALL = {
    "linformer": dict(type="linformer", length=4, rank=3),
    "orthoformer": dict(type="orthoformer", num_landmarks=2),
    "lara": dict(type="lara", num_samples=2),
    "performer": dict(type="performer", num_features=5),
}
MORE_PATTERNS = [
    dict(type="window", size=(2, 3, 2), shift=(1, 1, 1)),
    dict(type="causal_joint", past=2),
]
MORE_SHIFTS = [
    dict(type="temporal", divisor=2),
    dict(type="spatial", distance=2),
    dict(type="spatial_square", radius=2, alpha=0.0),
]


def examples(count: int) -> settings:
    return settings(max_examples=count, deadline=None, derandomize=True, phases=[Phase.generate])


def normal(*size: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)
    warnings.filterwarnings("ignore", ".*nothing is shifted")


def tokens(attn: nn.Module, x: Tensor) -> Tensor:
    """Updates (B, N, D) of a grid and of its mean as the class token."""
    grid, cls = run(attn, x, x.mean((1, 2, 3))[:, None])
    return grid.flatten(1, 3) if cls is None else torch.cat([cls, grid.flatten(1, 3)], dim=1)


@pytest.mark.parametrize("kernel", sorted(set(KERNELS) - {"recurrence"}))
def test_attention(kernel: str) -> None:

    @examples(6)
    @given(
        patterns=st.lists(st.sampled_from([*PATTERNS, *MORE_PATTERNS]), min_size=1, max_size=2),
        cls=st.sampled_from(["mean", "global", "skip"]),
        fixation=st.sampled_from([None, *FIXATIONS]),
        shifts=st.lists(st.sampled_from([*SHIFTS, *MORE_SHIFTS]), max_size=1),
        shift_last=st.booleans(),
        head_dim=st.sampled_from([1, 3, 8]),
        batch=st.integers(1, 2),
        grid=AXES,
    )
    def run(head_dim: int, batch: int, grid: tuple, **options: object) -> None:
        try:
            attn = Attention(2 * head_dim, 2, kernel=SMALL.get(kernel, kernel), **options)
        except ValueError as error:  # such as a kernel without masks
            assert "\n" not in str(error)
            reject()
        # Landmarks are chosen by comparison, and sums of few features can be near zero.
        half = kernel != "orthoformer" and head_dim > 1
        out = check_rows(attn, tokens, normal(batch, *grid, 2 * head_dim), half)
        assert out.shape[2] == 2 * head_dim

    run()


def call(module: nn.Module, x: Tensor) -> Tensor:
    return module(x)


WIDTHS = st.sampled_from([1, 2, 7, 33])


@examples(8)
@given(WIDTHS, AXES, st.sampled_from([1, 5]), st.booleans())
def test_mlp(dim: int, grid: tuple, hidden: int, depthwise: bool) -> None:
    layer = Mlp(dim, hidden, depthwise=depthwise)
    assert check_rows(layer, call, normal(2, *grid, dim)).shape == (2, *grid, dim)


@examples(8)
@given(st.sampled_from([3, 33]), st.sampled_from(list(NORMS)), st.sampled_from([0, 1e-4, 1, 1e3]))
def test_norm(dim: int, norm: str, scale: float) -> None:
    x = scale * normal(2, 2, 3, 1, dim)
    out = check_rows(NORMS.build(norm, normalized_shape=dim), call, x)
    assert torch.equal(out, x) if norm == "none" else out.square().mean(-1).max() < 1 + 1e-6


@examples(12)
@given(WIDTHS, AXES, st.sampled_from([*SHIFTS, *MORE_SHIFTS]))
def test_shift(dim: int, grid: tuple, shift: object) -> None:
    """Every number of the output is one of the input, or zero."""
    x = normal(2, *grid, 2, dim)
    out = check_rows(build_shift(shift, 2 * dim), lambda layer, x: layer(x, x, x)[1], x)
    assert torch.isin(out, torch.cat([x.flatten(), torch.zeros(1)])).all()


@examples(10)
@given(WIDTHS, st.sampled_from(list(FIXATIONS)), st.sampled_from(["concat", "add", "multiply"]))
def test_fixation(dim: int, scheme: str, combine: str) -> None:
    """Gates are between 0 and 1."""
    x = normal(2, 2, 1, 3, 2, dim)
    out = check_rows(Fixation(2 * dim, 2, scheme, combine), lambda layer, x: layer(x, -x, x)[0], x)
    assert (out.abs() <= x.abs()).all() and (out * x >= 0).all()


@examples(12)
@given(
    tubelet=st.tuples(*[st.integers(1, 3)] * 3),
    stride=st.none() | st.tuples(*[st.integers(1, 4)] * 3),
    padding=st.tuples(*[st.integers(0, 1)] * 3),
    size=st.tuples(*[st.sampled_from([1, 2, 5, 7])] * 3),
    norm=st.booleans(),
)
def test_embedding(tubelet, stride, padding, size, norm: bool) -> None:
    """The number of tokens is that of a convolution; a clip without any is refused."""
    layer = TubeletEmbedding(5, tubelet, 3, stride, padding, norm)
    each = zip(size, tubelet, stride or tubelet, padding, strict=True)
    grid = tuple((n + 2 * pad - t) // step + 1 for n, t, step, pad in each)
    clip = normal(2, 3, *size)
    if min(grid) < 1:
        with pytest.raises(
            ValueError, match=f"a clip of .* is smaller than a tubelet .{tubelet[0]}"
        ):
            layer(clip.float())
    else:
        # A convolution that gives one column is wrong in bfloat16 on processors with AMX
        # (pytorch/pytorch#169688).
        with torch.backends.mkldnn.flags(enabled=grid[2] > 1):
            assert check_rows(layer, call, clip).shape == (2, *grid, 5)


@examples(16)
@given(
    table=AXES,
    grid=AXES,
    names=st.sampled_from([("thw",), ("hw", "t"), ("t",), ("hw",), ()]),
    rule=st.sampled_from(list(RESIZE_RULES)),
    fixed=st.booleans(),
    causal=st.booleans(),
)
def test_positions(table, grid, names, rule: str, fixed: bool, causal: bool) -> None:
    """Tables that can be added to any grid, and are not zero."""
    rule = "linear" if fixed or not names else rule
    layer = PositionEmbedding(7, table, names, rule=rule, fixed=fixed)
    layer.causal = causal and grid[0] <= table[0]
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    tables, cls = layer(grid, torch.zeros(0, 7))
    assert cls is None and len(tables) == len(names)
    for table in tables:
        assert table.expand(2, *grid, 7).any() and table.isfinite().all()


@pytest.mark.parametrize("rule", ["linear", "bicubic"])
def test_positions_in_float64_are_resized_in_float64(rule: str) -> None:
    ramp = torch.linspace(0, 1 / 3, 3, dtype=torch.float64).reshape(1, 3, 1, 1, 1)
    found = resize_positions(ramp, (5, 1, 1), rule).flatten()
    expected = torch.linspace(0, 1 / 3, 5, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-15)


def test_small_features_of_elu_keep_their_digits() -> None:
    """``elu(x) + 1`` is ``exp(x)`` below zero, which is far from 1 there."""
    x = torch.tensor([-20.0, -5.0, 0.0, 3.0], requires_grad=True)
    features, _, _ = FeatureMap("elu")(x, x, x)
    expected = torch.stack([x[0].exp(), x[1].exp(), x[2] + 1, x[3] + 1])
    torch.testing.assert_close(features, expected, rtol=1e-6, atol=0)
    (slopes,) = torch.autograd.grad(features.sum(), x)
    expected = torch.tensor([-20.0, -5.0, 0.0, 0.0]).exp()
    torch.testing.assert_close(slopes, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    "sizes", [dict(tubelet=(0, 2, 2)), dict(tubelet=(1, 2, 2), stride=(1, 0, 2))]
)
def test_tubelets_and_strides_are_positive(sizes: dict) -> None:
    with pytest.raises(ValueError, match=r"tubelet and stride must be positive, got \("):
        TubeletEmbedding(4, **sizes)


@pytest.mark.parametrize("rate", [-0.1, 1.5])
def test_the_dropout_rate_of_attention_is_checked(rate: float) -> None:
    with pytest.raises(ValueError, match="dropout probability .* between 0 and 1"):
        Attention(8, 2, attn_drop=rate)

"""Resizing of tables of random sizes, compared with definitions place by place."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mmvidformer.layers import resize_positions
from mmvidformer.layers.resize import RESIZE_RULES

check = settings(max_examples=40, deadline=None, derandomize=True)
sizes = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))


def table_of(size: tuple[int, int, int], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(1, *size, 2, generator=torch.Generator().manual_seed(0)).to(dtype)


def linear(table: torch.Tensor, size: tuple[int, int, int]) -> torch.Tensor:
    """Weighted mean of the up to 8 neighbors of each place, with fixed ends."""
    out = torch.zeros(1, *size, table.shape[-1])
    for place in itertools.product(*map(range, size)):
        corners = []
        for at, new, old in zip(place, size, table.shape[1:4], strict=True):
            x = at * (old - 1) / (new - 1) if new > 1 else 0.0
            low = min(int(x), old - 1)
            corners.append([(low, 1 - (x - low)), (min(low + 1, old - 1), x - low)])
        for (t, a), (h, b), (w, c) in itertools.product(*corners):
            out[0, place[0], place[1], place[2]] += a * b * c * table[0, t, h, w]
    return out


@check
@given(sizes, sizes)
def test_linear(old, new) -> None:
    table = table_of(old)
    found = resize_positions(table, new)
    torch.testing.assert_close(found, linear(table, new), rtol=0, atol=1e-5)


def cubic(x: float) -> float:
    """Keys' kernel with a = -1/2, as in Pillow's bicubic filter."""
    x = abs(x)
    if x < 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0


def cubic_weights(old: int, new: int) -> torch.Tensor:
    """Weights (new, old) of the old places; the kernel is wider if there are fewer new ones."""
    scale = old / new
    wide = max(scale, 1.0)
    weights = torch.tensor(
        [[cubic((j + 0.5 - (i + 0.5) * scale) / wide) for j in range(old)] for i in range(new)]
    )
    return weights / weights.sum(1, keepdim=True)


@check
@given(sizes, sizes)
def test_bicubic(old, new) -> None:
    """Pillow's filter in space, then the linear rule in time."""
    table = table_of(old)
    found = resize_positions(table, new, "bicubic")
    if old == new:
        assert torch.equal(found, table)
        return
    rows, columns = (cubic_weights(o, n) for o, n in zip(old[1:], new[1:], strict=True))
    in_space = torch.einsum("bthwd,yh,xw->btyxd", table, rows, columns)
    torch.testing.assert_close(found, linear(in_space, new), rtol=0, atol=1e-5)


@check
@given(sizes, sizes)
def test_nearest(old, new) -> None:
    table = table_of(old)
    found = resize_positions(table, new, "nearest")
    for place in itertools.product(*map(range, new)):
        source = [i * o // n for i, o, n in zip(place, old, new, strict=True)]
        assert torch.equal(found[(0, *place)], table[(0, *source)])


@check
@given(sizes, sizes)
def test_nearest_along_the_sequence(old, new) -> None:
    table = table_of(old)
    found = resize_positions(table, new, "nearest_1d").flatten(1, 3)
    flat = table.flatten(1, 3)
    source = [i * flat.shape[1] // found.shape[1] for i in range(found.shape[1])]
    assert torch.equal(found, flat[:, source])


@check
@given(sizes, sizes, st.sampled_from(sorted(RESIZE_RULES)), st.booleans())
def test_shape_type_and_constant_tables(old, new, rule, half) -> None:
    dtype = torch.float16 if half else torch.float32
    table = table_of(old, dtype)
    found = resize_positions(table, new, rule)
    assert found.shape == (1, *new, 2) and found.dtype == dtype and found.is_contiguous()
    assert torch.isfinite(found).all()
    ones = resize_positions(torch.ones_like(table), new, rule)
    torch.testing.assert_close(ones, torch.ones_like(ones), rtol=0, atol=2e-3 if half else 1e-5)


@pytest.mark.parametrize("size", [(0, 2, 2), (2, 2), (1, -1, 2)])
@pytest.mark.parametrize("rule", RESIZE_RULES)
def test_wrong_sizes_are_refused(size, rule: str) -> None:
    with pytest.raises((ValueError, RuntimeError), match=r"unpack|greater than 0|[Ss]izes"):
        resize_positions(table_of((2, 2, 2)), size, rule)

import numpy as np
import pytest
import torch
from scipy.ndimage import zoom

from mmvidformer.layers import resize_positions


@pytest.mark.parametrize("size", [(4, 6, 6), (2, 3, 7), (1, 8, 2), (5, 4, 4)])
def test_linear_equals_scipy_zoom_of_order_one(size: tuple[int, int, int]) -> None:
    table = torch.randn(1, 2, 4, 4, 3, generator=torch.Generator().manual_seed(0))
    factors = [n / o for n, o in zip(size, table.shape[1:4], strict=True)]
    expected = zoom(table[0].numpy().astype(np.float64), (*factors, 1), order=1)
    np.testing.assert_allclose(resize_positions(table, size)[0].numpy(), expected, atol=1e-5)


def test_nearest_keeps_the_grid_and_nearest_1d_the_sequence() -> None:
    table = torch.arange(4.0).view(1, 1, 2, 2, 1)
    square = resize_positions(table, (1, 4, 4), "nearest").view(4, 4)
    assert square.tolist() == [[0, 0, 1, 1]] * 2 + [[2, 2, 3, 3]] * 2
    scrambled = resize_positions(table, (1, 4, 4), "nearest_1d").flatten()
    assert scrambled.tolist() == [0.0] * 4 + [1.0] * 4 + [2.0] * 4 + [3.0] * 4


def test_bicubic_equals_timm() -> None:
    from timm.layers import resample_abs_pos_embed

    table = torch.randn(1, 1, 4, 4, 8)
    expected = resample_abs_pos_embed(table.flatten(1, 3), [6, 6], num_prefix_tokens=0)
    torch.testing.assert_close(
        resize_positions(table, (1, 6, 6), "bicubic").flatten(1, 3), expected
    )


def test_same_size_returns_the_same_tensor_and_unknown_rules_are_named() -> None:
    table = torch.zeros(1, 2, 2, 2, 1)
    assert resize_positions(table, (2, 2, 2)) is table
    with pytest.raises(KeyError, match=r"cubic_spline.*linear"):
        resize_positions(table, (1, 2, 2), "cubic_spline")

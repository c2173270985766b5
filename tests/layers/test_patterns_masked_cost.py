"""Computation and memory that patterns with masks and options take."""

import pytest
import torch

from mmvidformer.analysis.complexity import count_macs
from mmvidformer.layers import Attention, get_pattern
from tests.layers.dense import Place
from tests.layers.largest_tensor import LargestTensor
from tests.layers.masked_patterns import DIM, HEADS, SPECS, build


def attention_macs(spec: dict, grid: Place, kernel: str = "softmax") -> int:
    """Multiply-accumulates without those of the projections."""
    with torch.device("meta"):
        attn, x = Attention(DIM, HEADS, [spec], "skip", kernel), torch.empty(1, *grid, DIM)
    return count_macs(attn, x) - 4 * x[..., 0].numel() * DIM**2


@pytest.mark.parametrize(
    ("spec", "grid", "pairs"),
    [
        (SPECS["window"], (4, 6, 4), 4 * 6 * 4 * 12),
        (SPECS["shifted"], (4, 6, 4), 4 * 6 * 4 * 12),
        (SPECS["shifted"], (4, 6, 40), 4 * 6 * 40 * 12),
        (SPECS["shifted"], (3, 5, 3), 4 * 6 * 4 * 12),  # padded to the first grid
        (SPECS["window"], (1, 6, 4), 1 * 6 * 4 * 6),  # a window of one frame
        (SPECS["frames"], (6, 5, 3), 6 * 15 * 30),
        (SPECS["frames"], (12, 5, 3), 12 * 15 * 30),
        (SPECS["dilated"], (6, 5, 3), 6 * 15 * 3),
        (SPECS["dilated"], (5, 5, 3), 6 * 15 * 3),
        (SPECS["dilated by 3"], (6, 5, 3), 6 * 15 * 2),
        (SPECS["causal_time"], (6, 5, 3), 6 * 15 * 6),
        (SPECS["causal_joint"], (6, 5, 3), (6 * 15) ** 2),
    ],
    ids=str,
)
def test_macs_are_those_of_the_pairs_within_groups(spec: dict, grid: Place, pairs: int) -> None:
    assert attention_macs(spec, grid) == 2 * pairs * DIM
    pattern = get_pattern(spec)
    assert pattern.num_groups(grid) * pattern.num_tokens(grid) ** 2 == pairs


def test_a_bounded_past_costs_in_proportion_to_it() -> None:
    """Runs of two frames see one earlier frame each: 2 x 2 and then 2 x 3 pairs of frames."""
    for frames, pairs in ((2, 4), (6, 4 + 6 + 6), (7, 4 + 6 + 6 + 2), (60, 4 + 29 * 6)):
        grid = (frames, 5, 3)
        assert attention_macs(SPECS["causal_time, past 2"], grid) == 2 * 15 * pairs * DIM
        assert attention_macs(SPECS["causal_joint, past 2"], grid) == 2 * 15**2 * pairs * DIM


@pytest.mark.parametrize("name", ["causal_time", "causal_joint"])
def test_a_causal_linear_kernel_costs_no_more_than_a_full_one(name: str) -> None:
    full, grid = name.removeprefix("causal_"), (6, 5, 3)
    macs = attention_macs({"type": name}, grid, "linear")
    if name == "causal_joint":  # one state per frame
        assert macs == attention_macs({"type": full}, grid, "linear")
    assert attention_macs({"type": name}, (12, 5, 3), "linear") == 2 * macs


@pytest.mark.parametrize("case", ["window", "shifted", "frames", "dilated", "causal_time"])
def test_memory_grows_with_the_groups(case: str) -> None:
    sizes = []
    for width in (40, 80):
        with torch.no_grad(), LargestTensor() as largest:
            build(SPECS[case])(torch.randn(1, 3, 6, width, DIM, dtype=torch.float64))
        sizes.append(largest.size)
    assert sizes[1] <= 2 * sizes[0] < (3 * 6 * 40) ** 2

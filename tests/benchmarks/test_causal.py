"""benchmarks/causal.py on tiny sequences."""

import torch

from benchmarks import causal
from mmvidformer.layers import KERNELS
from mmvidformer.layers.masks import Causal


def test_measures_each_kernel_in_inference_and_training(capsys) -> None:
    causal.main("--rows 256 --tokens 8 16 --dim 16 --repeats 1".split())
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "ms" not in line]
    rows = [[cell for cell in row if cell != "│"] for row in rows if len(row) > 6]
    assert [row[:4] for row in rows[:2]] == [
        ["linear", "256", "8", "inference"], ["linear", "256", "8", "training"]
    ]  # fmt: skip
    assert len(rows) == 3 * 2 * 2 and all(float(row[-1]) > 0 for row in rows)


def test_the_masked_form_is_that_of_the_linear_kernel() -> None:
    q, k, v = torch.rand(3, 2, 1, 9, 4).unbind()
    out = KERNELS.build("linear", head_dim=4)(q, k, v, Causal(3))
    torch.testing.assert_close(causal.masked(q, k, v, Causal(3)), out)

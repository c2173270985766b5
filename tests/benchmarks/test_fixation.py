"""benchmarks/fixation.py on tiny grids."""

import pytest
import torch

from benchmarks import fixation
from mmvidformer.models import FeatureFixationTransformer

SMALL = "--grid 4 3 3 --dim 32 --heads 2 --depth 1 --repeats 1".split()


def test_straightforward_form_has_the_same_outputs_and_gradients() -> None:
    torch.manual_seed(0)
    arch = dict(embed_dims=32, depth=1, num_heads=2)
    block = FeatureFixationTransformer(arch).double().encoders[0].blocks[0]
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    grid = torch.randn(2, 4, 3, 5, 32, dtype=torch.float64, requires_grad=True)
    leaves, found = [grid, *block.parameters()], []
    for out in (fixation.computed(block, grid), fixation.straightforward(block, grid)):
        found.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("options", [[], ["--training"], ["--optimize", "--dtype", "bf16"]])
def test_prints_times_and_differences(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert fixation.main([*SMALL, *options]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines[1:]] == ["straightforward", "mmvidformer"]
    assert lines[1][2] == "1.00" and float(lines[1][-1]) == 0.0


def test_fails_if_outputs_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixation, "straightforward", lambda block, grid: grid)
    assert fixation.main(SMALL) == 1

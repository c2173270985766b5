"""benchmarks/horst.py on tiny clips."""

import pytest
import torch

from benchmarks import horst
from mmvidformer.models.horst.layer import HorstLayer

SMALL = "--batch 1 --steps 4 --channels 8 --size 4 6 --order 2 --repeat 1".split()


@pytest.mark.parametrize("options", [[], ["--training"]])
def test_prints_times_and_differences(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert horst.main([*SMALL, *options]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["straightforward", "streamed", "clip"]
    assert lines[0][3] == "1.00" and float(lines[0][-1]) == 0.0
    assert all(float(line[-1]) < 1e-4 for line in lines)


def test_forms_have_the_same_gradients() -> None:
    torch.manual_seed(0)
    layer = HorstLayer(8, 8, order=2).double()
    clip = torch.randn(2, 4, 8, 4, 6, dtype=torch.float64)
    found = []
    for form in horst.FORMS.values():
        out = form(layer, clip)
        found.append(torch.autograd.grad(out.square().sum(), [*layer.parameters()]))
    torch.testing.assert_close(found[1:], [found[0]] * 2)


def test_fails_if_outputs_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**horst.FORMS, "clip": lambda layer, clip: layer(clip)[0].y + torch.ones(1)}
    monkeypatch.setattr(horst, "FORMS", wrong)
    assert horst.main(SMALL) == 1

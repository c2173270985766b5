"""The tool that compares the forms."""

from types import ModuleType

import pytest
import torch

SMALL = "--batch 1 --steps 4 --channels 8 --size 4 6 --order 2 --repeat 1".split()


def test_prints_times_and_differences(
    benchmark: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmark.main(SMALL) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["straightforward", "streamed", "clip"]
    assert lines[0][3] == "1.00" and float(lines[0][-1]) == 0.0
    assert all(float(line[-1]) < 1e-4 for line in lines)


def test_fails_where_outputs_differ(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**benchmark.FORMS, "clip": lambda layer, clip: layer(clip)[0].y + torch.ones(1)}
    monkeypatch.setattr(benchmark, "FORMS", wrong)
    assert benchmark.main(SMALL) == 1

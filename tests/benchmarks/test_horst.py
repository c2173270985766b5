"""benchmarks/horst.py on tiny clips."""

import pytest
import torch

from benchmarks import horst

SMALL = "--batch 1 --steps 4 --channels 8 --size 4 6 --order 2 --repeat 1".split()


def test_prints_times_and_differences(capsys: pytest.CaptureFixture[str]) -> None:
    assert horst.main(SMALL) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["straightforward", "streamed", "clip"]
    assert lines[0][3] == "1.00" and float(lines[0][-1]) == 0.0
    assert all(float(line[-1]) < 1e-4 for line in lines)


def test_fails_if_outputs_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**horst.FORMS, "clip": lambda layer, clip: layer(clip)[0].y + torch.ones(1)}
    monkeypatch.setattr(horst, "FORMS", wrong)
    assert horst.main(SMALL) == 1

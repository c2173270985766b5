"""Tables of camera motion on generated clips, and its temperature."""

from pathlib import Path

import pytest
import torch

from benchmarks.camera_generated import fit_temperature, main
from mmvidformer.checkpoints.download import fetch
from mmvidformer.checkpoints.partial import load_checkpoint


def test_a_temperature_is_found() -> None:
    torch.manual_seed(0)
    logits = 2 * torch.randn(4000, 9)
    labels = torch.distributions.Categorical(logits=logits).sample()
    assert fit_temperature(3 * logits, labels) == pytest.approx(3, rel=0.1)
    assert fit_temperature(0.5 * logits, labels) == pytest.approx(0.5, rel=0.1)


def test_tables_and_calibrated_weights(tmp_path: Path, capsys) -> None:
    out = tmp_path / "weights.pth"
    main(["camera_motion", "--scenes", "2", "--clips", "9", "--calibrate", str(out)])
    printed = capsys.readouterr().out
    assert "| all | " in printed and "| 18 |" in printed and "| roll, degrees/s | " in printed
    temperature = float(printed.partition("temperature ")[2].split()[0])
    before = load_checkpoint(fetch("published://camera_motion")).state
    after = load_checkpoint(out).state
    factor = (before["cls_head.log_scale"] - after["cls_head.log_scale"]).exp()
    assert factor.item() == pytest.approx(temperature, rel=1e-3)
    name = "cls_head.fc_cls.weight"
    torch.testing.assert_close(after[name].half(), before[name].half())

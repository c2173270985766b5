"""Training steps in all modes against the CPU's; the CPU is the device here."""

import csv
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks import steps
from mmvidformer import get_config


def rows_of(tmp_path: Path, *options: str) -> tuple[int, list[dict[str, str]]]:
    status = steps.main([*options, "--device", "cpu", "--out", str(tmp_path / "a" / "steps")])
    with open(tmp_path / "a" / "steps.csv", newline="") as file:
        return status, list(csv.DictReader(file))


def test_float32_on_the_cpu_has_no_gap_and_bfloat16_a_small_one(tmp_path: Path) -> None:
    status, rows = rows_of(tmp_path, "timesformer_motion", "--dtypes", "fp32", "bf16")
    assert status == 0
    exact, rounded = ([float(row[f"{x} gap"]) for x in ("score", "gradient")] for row in rows)
    assert exact == [0, 0]
    assert 1e-3 < rounded[0] < 0.05 and 1e-3 < rounded[1] < 0.3


@pytest.mark.skipif(torch.__version__ < "2.7", reason="FSDP of PyTorch 2.6 needs a GPU")
def test_distributed_modes_give_the_same_gradients(tmp_path: Path) -> None:
    options = ("horst_early_motion", "--modes", "ddp", "fsdp", "--dtypes", "fp32")
    status, rows = rows_of(tmp_path, *options)
    assert status == 0 and [row["mode"] for row in rows] == ["ddp", "fsdp"]
    assert all(float(row["gradient gap"]) < 1e-5 for row in rows)


def test_a_wrong_gradient_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(model: nn.Module, _: str) -> nn.Module:
        model.recognizer.backbone.encoders[0].blocks[0].norm.bias.register_hook(torch.neg)
        return model

    monkeypatch.setitem(steps.MODES, "eager", wrong)
    status, (row,) = rows_of(tmp_path, "timesformer_motion", "--dtypes", "fp32")
    assert status == 1
    assert float(row["score gap"]) == 0 and float(row["gradient gap"]) > 1e-3
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "gaps above the limits: timesformer_motion eager fp32"


def test_gaps_are_relative_and_tiny_gradients_count_less() -> None:
    big, tiny = torch.tensor([3.0, 4.0]), torch.tensor([1e-4])
    assert steps.gap(1.1 * big, big) == pytest.approx(0.1)
    assert steps.gradient_gap({"a": big, "b": 2 * tiny}, {"a": big, "b": tiny}) == pytest.approx(
        1e-4 / (0.01 * 5)
    )
    assert steps.gradient_gap({"a": big}, {"a": big, "b": tiny}) == float("inf")


@pytest.mark.parametrize("name", steps.CONFIGS)
def test_models_have_no_noise_and_no_zero_weights(name: str) -> None:
    model, clips = steps.build(get_config(name))
    assert all(parameter.any() for parameter in model.parameters())
    assert torch.equal(model(clips), model(clips))

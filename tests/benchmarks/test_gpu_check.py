"""What the check of a GPU does if a part is missing, fails, or hangs; and its tiny form."""

import csv
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import cv2
import pytest
import torch
from torch import Tensor, nn

from benchmarks import gpu_check, once
from benchmarks.gpu_parts import PARTS, Part, peak_of
from benchmarks.page import fill_page

ROOT = Path(__file__).parents[2]


def results(folder: Path) -> dict[str, dict]:
    return {p["part"]: p for p in json.loads((folder / "gpu_check.json").read_text())["parts"]}


def test_without_a_gpu_each_part_says_what_it_would_show(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", ROOT / "tools" / "gpu_check.sh", "--out", tmp_path],
        env={**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for part in PARTS:
        assert f"PyTorch finds no GPU; it would show {part.shows}" in done.stdout
    with open(tmp_path / "gpu_check.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["part"] for row in rows] == [part.name for part in PARTS]
    assert {(row["status"], row["reason"]) for row in rows} == {("skipped", "PyTorch finds no GPU")}
    assert not (tmp_path / "gpu_check.png").exists()


TOY = """
import sys, time
kind, path = sys.argv[1], sys.argv[2].removeprefix("--out=")
with open(path + ".csv", "w") as file:
    file.write("a,b\\n1,2\\n")
if kind == "hangs":
    time.sleep(3600)
if kind == "fails":
    raise ValueError("broken | here")
"""


class Patient(subprocess.Popen):
    """Its limit starts when the part that hangs has written its table."""

    table: Path

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the table first."""
        if "hangs" in self.args:
            while not (self.table.exists() and self.table.stat().st_size):
                time.sleep(0.05)
        return super().wait(timeout)


SKIPPED = "import pytest\ndef test_a():\n    pytest.skip('needs a thing')\n"


def test_a_part_that_fails_or_hangs_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "toy_part.py").write_text(TOY)
    (tmp_path / "test_toy.py").write_text(SKIPPED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    parts = (
        Part("fails", "nothing", 60, "", "toy_part fails"),
        Part("hangs", "nothing", 2 / 60, "", "toy_part hangs"),
        Part("runs", "a table", 60, "", "toy_part runs"),
        Part("tests", "a test", 60, "", f"pytest -c {os.devnull} {tmp_path / 'test_toy.py'}"),
        Part("gpu", "speed", 1, "toy_part runs"),
    )
    monkeypatch.setattr(gpu_check, "PARTS", parts)
    out = tmp_path / "gpu"
    monkeypatch.setattr(Patient, "table", out / "hangs.csv", raising=False)
    monkeypatch.setattr(gpu_check.subprocess, "Popen", Patient)
    assert gpu_check.main(["--tiny", "--minutes", "60", "--out", str(out)]) == 1
    found = results(out)
    assert {name: (p["status"], p["reason"]) for name, p in found.items()} == {
        "fails": ("failed", "ValueError: broken | here (see fails.log)"),
        "hangs": ("failed", "stopped after 2 s; rows so far: 1"),
        "runs": ("ran", ""),
        "tests": ("skipped", "needs a thing"),
        "gpu": ("skipped", "this part needs a GPU"),
    }
    assert found["hangs"]["rows"] == found["runs"]["rows"] == [{"a": "1", "b": "2"}]
    assert "this part needs a GPU; it would show speed" in capsys.readouterr().out

    page = fill_page("<!-- gpu: gpu -->\nold\n<!-- end of benchmark -->\n", tmp_path)
    assert "old" not in page and "- machine: CPU, tiny models\n" in page
    assert "| gpu | skipped | 0 | speed | this part needs a GPU |" in page
    assert "ValueError: broken / here" in page
    assert "runs:\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n" in page


def test_parts_beyond_the_time_are_skipped(tmp_path: Path) -> None:
    options = ["--tiny", "--spent", "535", "--parts", "eager", "--out", str(tmp_path)]
    assert gpu_check.main(options) == 0
    assert results(tmp_path)["eager"]["reason"] == "the 9 minutes are over"


def test_the_page_reports_that_nothing_was_measured(tmp_path: Path) -> None:
    page = fill_page("<!-- gpu: none -->\n<!-- end of benchmark -->\n", tmp_path)
    assert page.splitlines()[1] == "Nothing has been measured on a GPU yet."


@pytest.mark.parametrize(
    "device, peak",
    [
        ("NVIDIA H200, torch 2.15", 989.4),
        ("NVIDIA H100 80GB HBM3", 989.4),
        ("NVIDIA H100 PCIe", 756.5),
        ("NVIDIA A100-SXM4-80GB", 312.0),
        ("NVIDIA L4", 121.0),
        ("NVIDIA L40S", 362.0),
        ("NVIDIA L40", None),
        ("NVIDIA GeForce GTX 1080", None),
    ],
)
def test_peaks_by_name(device: str, peak: float | None) -> None:
    assert peak_of(device) == peak


def test_share_of_the_peak() -> None:
    rows = [
        {"pass": kind, "G MACs": "200.0", "clips/s": "100.0"} for kind in ("inference", "training")
    ]
    gpu_check.add_speed(rows, 400.0)
    assert [row["TFLOP/s"] for row in rows] == ["40", "120"]
    assert [row["share of the device's peak"] for row in rows] == ["0.100", "0.300"]


def test_parts_name_tests_that_exist() -> None:
    command = next(part.command for part in PARTS if part.name == "tests")
    assert "tests/benchmarks/test_compare.py" in command
    assert "tests/cli/test_distributed.py" in command
    assert Path(__file__).name not in command


def test_the_scan_and_the_loop_are_one_recurrence() -> None:
    table = once.measure_recurrence("cpu", 1)
    assert table.holds and [row[1] for row in table.rows] == ["loop", "scan"] * 2


def test_a_mask_that_is_copied_for_each_clip_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = once.SoftmaxKernel.forward

    def copy_mask(
        kernel: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        if mask is None:
            return fused(kernel, q, k, v)
        masks = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
        masks = masks.expand(len(q), *mask.shape).flatten(0, 1).contiguous()
        return fused(kernel, *(x.flatten(0, 1) for x in (q, k, v)), masks)

    assert once.measure_windows("cpu", 14).holds
    monkeypatch.setattr(once.SoftmaxKernel, "forward", copy_mask)
    assert not once.measure_windows("cpu", 14).holds


def test_a_table_that_is_computed_again_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once.eager, "runs_eagerly", lambda: False)
    assert not once.measure_places("cpu", 4).holds


@pytest.mark.slow
@pytest.mark.skipif(torch.__version__ < "2.7", reason="FSDP of PyTorch 2.6 needs a GPU")
def test_tiny_models_on_the_cpu(monkeypatch, tmp_path: Path) -> None:
    # The parts' own limits are for a GPU; how long a busy processor takes is not tested.
    monkeypatch.setattr(gpu_check, "PARTS", [replace(part, minutes=300) for part in PARTS])
    parts = (
        "synchronisations places eager nccl fsdp speed horst windows recurrence fixation compiled"
    )
    parts = parts.split()
    options = ["--tiny", "--minutes", "300", "--parts", *parts, "--out", str(tmp_path)]
    assert gpu_check.main(options) == 0
    found = results(tmp_path)
    assert {name: part["status"] for name, part in found.items()} == dict.fromkeys(parts, "ran")
    for name in ("eager", "nccl", "fsdp", "compiled"):
        for row in found[name]["rows"]:
            exact = row["dtype"] == "fp32"
            assert float(row["score gap"]) < (1e-6 if exact else 0.05)
            assert float(row["gradient gap"]) < (1e-5 if exact else 0.3)
    assert [row["in the second"] for row in found["places"]["rows"]] == ["0"] * 3
    models = {row["model"] for row in found["speed"]["rows"]}
    assert {"mmvidformer", "MMAction2", "HuggingFace"} <= models
    for row in found["speed"]["rows"]:
        assert 0 < float(row["TFLOP/s"]) < 10
        assert row["share of the device's peak"] == "unknown"
    assert all(float(row["largest difference"]) < 1e-4 for row in found["horst"]["rows"])
    assert {row["kernel"] for row in found["fixation"]["rows"]} == {"fixation", "linear"}
    assert cv2.imread(str(tmp_path / "gpu_check.png")).std() > 5

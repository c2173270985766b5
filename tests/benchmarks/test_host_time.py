"""Rows of benchmarks/host_time.py, and what does not depend on the machine."""

import csv
from pathlib import Path

import pytest

from benchmarks import host_time


def test_blocks_next_to_timm(tmp_path: Path) -> None:
    pytest.importorskip("timm")
    host_time.main(["--rounds", "2", "--out", str(tmp_path / "a")])
    with open(tmp_path / "a.csv", newline="") as file:
        rows = {row["block"]: row for row in csv.DictReader(file)}
    names = [name for model in host_time.MODELS for name in (model, f"{model}, regrouped once")]
    assert [*rows] == ["timm", *names]
    assert all(float(row["us"]) > 0 for row in rows.values()) and rows["timm"]["of timm"] == "1.00"
    operators = {name: int(row["operators"]) for name, row in rows.items()}
    calls = {name: int(row["Python calls"]) for name, row in rows.items()}
    assert operators["joint, regrouped once"] <= operators["timm"] <= operators["joint"]
    assert operators["divided, regrouped once"] < operators["divided"]
    assert calls["joint, regrouped once"] < calls["joint"] < calls["timm"]

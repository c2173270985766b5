"""The commands with --int8: near the exact answers, and what says how near."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

NEAR = "int8: 0 of "


def features(main_of: Callable, command: list[str], out: Path, *options: str) -> np.ndarray:
    assert main_of("features")([*command, "--out", str(out), *options]) == 1  # one is broken
    rows = pq.read_table(out).to_pylist()
    return np.array([row["features"] for row in rows])


@pytest.mark.parametrize("tokens", [[], ["--tokens"]])
def test_features(main_of, model, folder, tmp_path, capsys, tokens) -> None:
    command = [*model, str(folder)]
    exact = features(main_of, command, tmp_path / "exact", *tokens)
    assert "int8" not in capsys.readouterr().out
    rounded = features(main_of, command, tmp_path / "int8", "--int8", *tokens)
    assert 0 < np.abs(rounded - exact).max() < 0.1 * np.abs(exact).max()
    assert "int8: largest difference of a score 0.0" in capsys.readouterr().out
    with pytest.raises(FileExistsError, match="another int8"):
        main_of("features")([*command, "--out", str(tmp_path / "exact"), "--int8", *tokens])


def test_labels(main_of, model, folder, tmp_path, capsys) -> None:
    command, rows = [*model, str(folder), "--out"], []
    for options in ([], ["--int8"]):
        out = tmp_path / f"labels{len(options)}"
        assert main_of("label")([*command, str(out), *options]) == 1
        rows.append(pq.read_table(out).to_pylist())
    for exact, rounded in zip(*rows, strict=True):
        assert rounded["probability"] == pytest.approx(exact["probability"], abs=0.02)
    assert NEAR in capsys.readouterr().out


def test_demo(main_of, model, folder, capsys) -> None:
    assert main_of("demo")([*model, str(folder / "0"), "--window", "1", "--int8"]) == 0
    errors = capsys.readouterr().err
    assert "optimized for inference, int8" in errors and NEAR in errors


def test_testing(test, model, tmp_path, caplog) -> None:
    test([*model, "--work-dir", str(tmp_path), "--int8"])
    (log,) = tmp_path.glob("*/*.log")
    assert NEAR in log.read_text()
    with pytest.raises(ValueError, match="--int8 goes neither with --amp nor with a sharded model"):
        test([*model, "--work-dir", str(tmp_path), "--int8", "--amp"])

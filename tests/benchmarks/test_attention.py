"""benchmarks/attention.py on tiny clips."""

import csv
from pathlib import Path

import cv2
import pytest


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_writes_table_growth_and_plot(main_of, tmp_path: Path, capsys) -> None:
    options = "--kernels fixation softmax --attention joint --frames 2 4 --sizes 32 --arch 32,2,2"
    command = [*options.split(), "--repeats", "1", "--warmup", "0", "--out", str(tmp_path / "b")]
    main_of("attention")([*command, "--attention-only", "--device", "cpu"])
    rows = read(tmp_path / "b.csv")
    assert [(row["kernel"], row["frames"], row["tokens"]) for row in rows] == [
        ("fixation", "2", "18"), ("fixation", "4", "36"), ("softmax", "2", "18"),
        ("softmax", "4", "36"),
    ]  # fmt: skip
    assert all(float(row["ms"]) > 0 and float(row["peak MiB"]) > 0 for row in rows)
    for row in rows:
        assert float(row["videos/s"]) * float(row["ms"]) == pytest.approx(1000, rel=0.2)
    grown = read(tmp_path / "b_growth.csv")
    assert [row["kernel"] for row in grown] == ["fixation", "softmax"]
    assert grown[0]["tokens"] == "2.0 x"
    assert cv2.imread(str(tmp_path / "b.png")).std() > 5
    assert "videos/s" in capsys.readouterr().out


def test_out_of_memory_is_a_row(main_of, tmp_path: Path) -> None:
    # Tokens of 11 GiB: the limit does not count memory that earlier tests freed and malloc kept.
    options = "--kernels linear --attention joint --frames 8192 --sizes 1024 --arch 64,1,2"
    command = [*options.split(), "--memory-limit", "0.001", "--out", str(tmp_path / "deeper" / "b")]
    main_of("attention")([*command, "--attention-only", "--device", "cpu"])
    row = read(tmp_path / "deeper" / "b.csv")[0]
    assert row["ms"] == row["videos/s"] == row["peak MiB"] == "out of memory"
    assert float(row["G MACs"]) > 0


@pytest.mark.parametrize("arch", ["c", "96,4"])
def test_wrong_arch_is_refused(main_of, arch: str, capsys) -> None:
    with pytest.raises(SystemExit):
        main_of("attention")(["--out", "b", "--arch", arch])
    assert repr(arch) in capsys.readouterr().err

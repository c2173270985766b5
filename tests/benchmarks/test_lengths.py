"""benchmarks/lengths.py on tiny models."""

import csv
from pathlib import Path

from benchmarks import lengths

SMALL = "--arch 16,1,2 --size 32 --frames 8 --batch 4 --repeats 1 --threads 1".split()
SHARES = {"all equal": 1.0, "half of them short": 0.75, "one long": 0.4375, "all different": 0.625}


def test_every_model_is_measured(tmp_path: Path) -> None:
    status = lengths.main([*SMALL, "--out", str(tmp_path / "table")])
    with open(tmp_path / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == [name for name in lengths.MODELS for _ in SHARES]
    for row in rows:
        share = SHARES[row["lengths"]]
        assert float(row["valid / padded"]) == round(share, 3)
        assert float(row["bound"]) == round(1.15 * share, 3)
        assert float(row["padded ms"]) > 0
    over = [row for row in rows if float(row["time / padded"]) > float(row["bound"])]
    assert status == bool(over)

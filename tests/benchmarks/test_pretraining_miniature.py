"""The table of pretraining against training from nothing, with little time and data."""

import json
from pathlib import Path

from benchmarks import pretraining_miniature


def test_rows(tmp_path: Path, capsys) -> None:
    out = tmp_path / "rows.json"
    options = "--arch 16,1,2 --pretrain 0.1 --finetune 0.1 --seeds 2 --labels 8 --train 64 --test 8"
    pretraining_miniature.main([*options.split(), "--out", str(out)])
    rows = json.loads(out.read_text())
    assert [(row["seed"], row["start"]) for row in rows] == [
        (seed, start) for seed in (0, 1) for start in ("from nothing", "pretrained")
    ]
    assert all(row["steps"] > 0 and 0 <= row["test"] <= 1 for row in rows)
    assert "| test | labels | from nothing | pretrained |" in capsys.readouterr().out

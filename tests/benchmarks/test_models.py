"""benchmarks/models.py on a tiny config."""

import csv
import json
from pathlib import Path

import cv2
import pytest

from benchmarks import timing

CONFIG = """
model = dict(
    type="Recognizer3D",
    backbone=dict(
        type="mmvidformer.TimeSformer",
        arch=dict(embed_dims=32, depth=1, num_heads=2),
        img_size=32, clip_len=2, stem=dict(tubelet=(1, 8, 8)),
    ),
    cls_head=dict(type="TimeSformerHead", num_classes=5, in_channels=32),
)
"""


def test_writes_table_picture_and_page(main_of, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setitem(timing.SIDES, "cpu", 256)
    monkeypatch.setitem(timing.COPY, "cpu", 2**20)
    config, page = tmp_path / "tiny.py", tmp_path / "page.md"
    config.write_text(CONFIG)
    page.write_text(
        "before\n<!-- baselines: benchmark/quick -->\nold\n<!-- end of benchmark -->\nafter\n"
    )
    out = tmp_path / "benchmark" / "quick"
    options = "--device cpu --threads 1 --repeats 1 --warmup 0 --no-memory --optimize"
    main_of("models")([str(config), *options.split(), "--out", str(out), "--page", str(page)])
    with open(f"{out}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["pass"] for row in rows] == ["inference"] * 5 + ["training"] * 5
    assert rows[1]["model"] == rows[6]["model"] == "mmvidformer optimized"
    assert float(rows[1]["G MACs"]) <= float(rows[0]["G MACs"])
    assert {row["peak MiB"] for row in rows} == {"not measured"}
    about = json.loads(Path(f"{out}.json").read_text())
    assert "1 threads" in about["machine"] and "torch" in about["versions"]
    assert cv2.imread(f"{out}.png").std() > 5
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    for row in rows[:5]:
        times = float(row["time / ours"]) / float(rows[1]["time / ours"])
        assert row["model"].startswith("mmvidformer") or f"{times:.2f} x time" in text
    assert about["command"].startswith("python -m benchmarks.models ")
    assert "MMAction2" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options, message",
    [
        ([], "configs to measure or --page are required"),
        (["vivit_fe_k400"], "--out is required"),
    ],
)
def test_missing_arguments_are_named(main_of, options: list, message: str, capsys) -> None:
    with pytest.raises(SystemExit):
        main_of("models")(options)
    assert message in capsys.readouterr().err

"""All forms of a model beside those of others, on tiny models."""

import csv
from pathlib import Path

import pytest
import torch

from mmvidformer.models.fast import run_lengths

CONFIG = """
model = dict(
    type="Recognizer3D",
    backbone=dict(
        type="mmvidformer.{type}", scheme="{scheme}", img_size=32, clip_len=4,
        arch=dict(embed_dims=32, depth=1, num_heads=2), stem=dict(tubelet=({frames}, 8, 8)),
    ),
    cls_head=dict(type="TimeSformerHead", num_classes=5, in_channels=32),
)
"""
VIVIT = dict(type="ViViT", scheme="spacetime", frames=2)
TIMESFORMER = dict(type="TimeSformer", scheme="divided_space_time", frames=1)
RUNS = ["mmvidformer run lengths", "mmvidformer int8, run lengths"]


@pytest.mark.parametrize("model", [VIVIT, TIMESFORMER], ids=lambda model: model["type"])
def test_rows(main_of, tmp_path: Path, capsys, model: dict, monkeypatch) -> None:
    # Models as small as this one gain nothing, and would compute all.
    monkeypatch.setattr(run_lengths, "most_moving", lambda backbone: 0.95)
    for package in ("onnxruntime", "onnxscript", "transformers"):
        pytest.importorskip(package)
    config, out = tmp_path / "tiny.py", tmp_path / "rows.csv"
    config.write_text(CONFIG.format(**model))
    threads = torch.get_num_threads()
    try:
        main_of("side_by_side")([str(config), "--rounds", "1", "--out", str(out)])
    finally:
        torch.set_num_threads(threads)
    with open(out, newline="") as file:
        rows = {row.pop("model"): row for row in csv.DictReader(file)}
    has_runs = model is VIVIT
    ours = ["mmvidformer", "mmvidformer optimized", "mmvidformer int8", *(RUNS if has_runs else [])]
    peers = ["HuggingFace", "HuggingFace, ONNX Runtime", "HuggingFace, ONNX Runtime int8"]
    assert list(rows) == [*ours, *([] if has_runs else ["MMAction2"]), *peers]
    errors = {name: float(row["error"]) for name, row in rows.items()}
    inexact = ["mmvidformer int8", "HuggingFace, ONNX Runtime int8", *(RUNS if has_runs else [])]
    assert all(1e-5 < errors[name] < 0.5 for name in inexact)
    assert all(error < 1e-5 for name, error in errors.items() if name not in inexact)
    assert rows["mmvidformer optimized"]["faster"] == "1.00"
    refused = "run lengths: TimeSformer cannot compute still tubelets once"
    assert (refused in capsys.readouterr().out) != has_runs

import csv
from pathlib import Path

import cv2
import pytest

from benchmarks.cost_curves import count_timesformer


@pytest.mark.parametrize(
    ("attention", "frames", "side", "giga"),
    [  # counted on the official code
        ("joint_space_time", 8, 224, 179.56),
        ("divided_space_time", 8, 224, 195.83),
        ("divided_space_time", 16, 448, 1702.69),
        ("divided_space_time", 96, 224, 2379.86),
    ],
)
def test_counts_are_the_official_codes(attention: str, frames: int, side: int, giga: float) -> None:
    # The official code projects a copy of the class token for each frame in the attention over
    # space (4 D^2 in 12 blocks); here it is projected once.
    copies = frames - 1 if attention == "divided_space_time" else 0
    counted = count_timesformer(attention, frames, side) + copies * 12 * 4 * 768**2
    assert counted / 1e9 == pytest.approx(giga, abs=0.01)


def test_cost_curves_are_written(main_of, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("benchmarks.cost_curves.CROPS", (32, 64))
    monkeypatch.setattr("benchmarks.cost_curves.FRAMES", (2,))
    picture, table = tmp_path / "costs.png", tmp_path / "costs.csv"
    main_of("cost_curves")(["--out", str(picture), "--csv", str(table)])
    assert cv2.imread(str(picture)).std() > 5
    with open(table) as file:
        rows = list(csv.DictReader(file))
    assert [(row["axis"], row["attention"], row["size"]) for row in rows] == [
        ("crop", "joint_space_time", "32"),
        ("crop", "joint_space_time", "64"),
        ("crop", "divided_space_time", "32"),
        ("crop", "divided_space_time", "64"),
        ("frames", "joint_space_time", "2"),
        ("frames", "divided_space_time", "2"),
    ]
    tokens, dim = 2 * 196 + 1, 768
    blocks = 12 * (12 * dim**2 * tokens + 2 * tokens**2 * dim)
    macs = (tokens - 1) * 3 * 16**2 * dim + blocks + dim * 400
    assert rows[4]["G MACs of one view"] == f"{macs / 1e9:.2f}"

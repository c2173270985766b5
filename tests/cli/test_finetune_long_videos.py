"""Fine-tuning on features of long videos."""

import json
from pathlib import Path

import numpy as np
import pytest

from lab.synthetic.render import write_video
from mmvidformer.finetune.tally import Tally

SECONDS, RATE = 40, 4
COLORS = np.eye(3) * 160 + 40  # of classes: red, green, blue


def write_colors(path: Path, label: int, seconds: int, seed: int, gray: int = 0) -> None:
    """Write noise over the color of a class, and over gray for some seconds in the middle."""
    shape = (seconds * RATE, 32, 64, 3)
    frames = np.random.default_rng(seed).normal(COLORS[label], 30, shape)
    middle = len(frames) // 2
    frames[middle - gray * RATE // 2 : middle + gray * RATE // 2] = 100
    write_video(path, frames.clip(0, 255).astype(np.uint8), RATE)


@pytest.fixture(scope="module")
def long_videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lists of long videos whose middle is gray, and of short ones for the test."""
    folder = tmp_path_factory.mktemp("long")
    lists: dict[str, list[str]] = {"train": [], "test": []}
    for label in range(3):
        write_colors(folder / f"{label}.mp4", label, SECONDS, label, gray=6)
        lists["train"].append(f"{label}.mp4 {label}")
        for number in range(2):
            write_colors(folder / f"short_{label}_{number}.mp4", label, 5, 10 + number)
            lists["test"].append(f"short_{label}_{number}.mp4 {label}")
    for split, lines in lists.items():
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")
    (folder / "classes.txt").write_text("red\ngreen\nblue\n")
    return folder


@pytest.mark.parametrize("method", ["linear", "attentive", "temporal"])
def test_all_clips_are_learned(main_of, long_videos, pretrained, tmp_path, method) -> None:
    """Center views do not tell the classes here."""
    config, checkpoint, _ = pretrained
    options = ["--config", config, "--data", str(long_videos), "--weights", checkpoint]
    options += ["--workers", "0", "--method", method, "--work-dir", str(tmp_path / "run")]
    assert main_of("finetune")([*options, "--features", str(tmp_path / "features")]) == 0
    form = {"linear": "vectors", "attentive": "tokens", "temporal": "changes"}[method]
    files = (tmp_path / "features" / form).glob("*.npy")
    counts = {file.name: len(np.load(file)) for file in files}
    # 160 frames in clips of 8, one of them the center view.
    assert {count for name, count in counts.items() if name.startswith("short")} == {1}
    assert [counts[f"{label}.mp4.npy"] for label in range(3)] == [21, 21, 21]
    tally = Tally.read(json.loads((tmp_path / "run/finetune/result.json").read_text())["tally"])
    assert tally.count == 6 and (tally.right >= 5 or method == "temporal")  # colors do not change

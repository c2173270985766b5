"""Predictions that have seconds need a constant frame rate."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mmvidformer.apis import Recognizer
from mmvidformer.apis.detector import PersonDetector
from mmvidformer.apis.features import read_windows
from mmvidformer.visualization.annotate import classify_boxes
from mmvidformer.web import check_video
from tests.datasets.decoding.toys import BURST, write

CALLS = {
    "timeline": ("clip", lambda r, path: next(r.timeline(path))),
    "windows": ("clip", lambda r, path: r.windows(r.pipeline.open(path))),
    "steps": ("steps", lambda r, path: r(path)),
    "segments": ("segments", lambda r, path: r(path)),
    "boxes": ("boxes", lambda r, path: r.boxes(path, 1, [(0, 0, 1, 1)])),
    "persons": ("boxes", lambda r, path: classify_boxes(r, path, "persons")),
    "features": (
        "clip",
        lambda r, path: read_windows(r.pipeline, r.pipeline.open(path), 4, r.model),
    ),
    "page": ("clip", lambda r, path: check_video(str(path), 100, 100)),
}


@pytest.fixture
def burst(tmp_path: Path) -> Path:
    """A file of variable rate."""
    path = tmp_path / "v.mp4"
    write(path, times=[round(25 * time) for time in BURST], count=len(BURST), size=(64, 48))
    return path


@pytest.mark.parametrize("name", CALLS)
def test_predictions_with_seconds_are_refused(cfg, burst, monkeypatch, name: str) -> None:
    over, call = CALLS[name]
    detector = PersonDetector.__new__(PersonDetector)  # without weights
    monkeypatch.setattr("mmvidformer.visualization.annotate.load_detector", lambda _: detector)
    recognizer = Recognizer(cfg, None)
    recognizer.over = over
    with pytest.raises(ValueError, match=r"v\.mp4: its frame rate varies .* fps=25 OUT"):
        call(recognizer, burst)


def test_the_class_of_a_whole_video_is_not(cfg, burst: Path) -> None:
    assert Recognizer(cfg, None)(burst).seconds is None


def test_the_command_names_the_file_and_goes_on(
    cfg, burst: Path, main_of: Callable, tiny_videos, build, capsys
) -> None:
    root = burst.parent
    (root / "good.mp4").symlink_to(tiny_videos.root / "val_0.mp4")
    cfg.dump(root / "config.py")
    torch.save(dict(state_dict=build(cfg).state_dict()), root / "weights.pth")
    options = [str(root / name) for name in ("config.py", "weights.pth", "")]
    assert main_of("demo")([*options, "--window", "1"]) == 1
    shown = capsys.readouterr()
    assert "failed:" in shown.err and "v.mp4: its frame rate varies" in shown.err
    assert "good.mp4 0.00-1.00 s: " in shown.out and "v.mp4 0.00" not in shown.out

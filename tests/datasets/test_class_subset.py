from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mmengine.logging import MMLogger

from mmvidformer.datasets.motion.render import write_video
from mmvidformer.registry import DATASETS

pytestmark = pytest.mark.usefixtures("scope")


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    """A list of six videos, of 8, 12, 16, ... frames and of classes 5, 2, 7, 5, 2, 7."""
    lines = []
    for i, label in enumerate((5, 2, 7, 5, 2, 7)):
        frames = np.full((8 + 4 * i, 64, 64, 3), 200, np.uint8)
        write_video(tmp_path / f"{i}.mp4", frames, fps=12)
        lines.append(f"{i}.mp4 {label}\n")
    (tmp_path / "train.txt").write_text("".join(lines))
    return tmp_path


def build(root: Path, classes: str, ratio: float = 1.0, **kwargs) -> dict:
    (root / "classes.txt").write_text(classes)
    return {
        "type": "mmvidformer.ClassSubsetDataset",
        "ann_file": str(root / "train.txt"),
        "data_prefix": {"video": str(root)},
        "class_file": str(root / "classes.txt"),
        "pipeline": [
            {"type": "DecordInit"},
            {"type": "mmvidformer.ObserveFirst", "ratio": ratio},
            {"type": "DecordDecode"},
            {"type": "FormatShape", "input_format": "NCTHW"},
            {"type": "PackActionInputs"},
        ],
        **kwargs,
    }


def pairs(dataset: object) -> list[tuple[str, int]]:
    infos = [dataset.get_data_info(i) for i in range(len(dataset))]
    return [(Path(info["filename"]).stem, info["label"]) for info in infos]


def test_classes_are_numbered_in_the_order_of_the_file(videos: Path) -> None:
    names = [f"class {i}" for i in range(8)]
    dataset = DATASETS.build(build(videos, "7\n\n5\n", metainfo=dict(classes=names)))
    assert pairs(dataset) == [("0", 1), ("2", 0), ("3", 1), ("5", 0)]
    assert dataset.metainfo["classes"] == ["class 7", "class 5"]


def test_classes_by_name(videos: Path) -> None:
    (videos / "map.txt").write_text("".join(f"Doing [{i}] things\n" for i in range(9)))
    metainfo = dict(classes=str(videos / "map.txt"))
    dataset = DATASETS.build(build(videos, "Doing [2] things\n7\n", metainfo=metainfo))
    assert pairs(dataset) == [("1", 0), ("2", 1), ("4", 0), ("5", 1)]
    assert dataset.metainfo["classes"] == ["Doing [2] things", "Doing [7] things"]


def test_counts_are_logged(videos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    logger = SimpleNamespace(info=said.append, log=lambda *_: None)
    monkeypatch.setattr(MMLogger, "get_current_instance", lambda: logger)
    DATASETS.build(build(videos, "7\n5\n"))
    assert "train.txt: 4 clips of the 2 classes in " in said[0]


@pytest.mark.parametrize(
    ("classes", "match"),
    [
        ("", "classes.txt lists no classes"),
        ("5\n7\n5\n", "classes.txt lists the class '5' twice"),
        ("5\nPushing\n", "classes.txt: 'Pushing' is no number and no name in metainfo"),
        ("5\n6\n", r"train.txt has no videos of the classes \[6\] of .*classes.txt"),
    ],
)
def test_invalid_lists(videos: Path, classes: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        DATASETS.build(build(videos, classes))

"""Folders of images as clips of one frame."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from mmvidformer.registry import DATASETS

pytestmark = pytest.mark.usefixtures("scope")

PIPELINE = [
    {"type": "ImageDecode"},
    {"type": "Resize", "scale": (8, 8), "keep_ratio": False},
    {"type": "FormatShape", "input_format": "NCTHW"},
    {"type": "PackActionInputs"},
]


def write(root: Path, *names: str) -> None:
    for value, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        picture = np.zeros((10, 12, 3), np.uint8)
        picture[..., 2] = 50 + value  # OpenCV writes blue, green, red
        assert cv2.imwrite(str(root / name), picture)


def build(root: Path, **kwargs):
    kwargs = {"root": str(root), "pipeline": PIPELINE, **kwargs}
    return DATASETS.build({"type": "mmvidformer.ImageFolderDataset", **kwargs})


def test_items_are_clips_of_one_frame(tmp_path: Path) -> None:
    write(tmp_path, "cat/1.png", "dog/deeper/2.png", "dog/3.png")
    dataset = build(tmp_path)
    items = [dataset[i] for i in range(len(dataset))]
    assert [item["data_samples"].gt_label.item() for item in items] == [0, 1, 1]
    assert items[0]["inputs"].shape == (1, 3, 1, 8, 8)
    assert sorted(item["inputs"][0, 0].unique().item() for item in items) == [50, 51, 52]  # red
    assert all((item["inputs"][0, 1:] == 0).all() for item in items)


def test_validation_sets_may_lack_classes(tmp_path: Path) -> None:
    write(tmp_path, "train/ape/1.png", "train/cat/1.png", "val/cat/2.png")
    val = build(tmp_path / "val", classes_from=str(tmp_path / "train"), test_mode=True)
    assert [val[0]["data_samples"].gt_label.item()] == [1]
    with pytest.raises(ValueError, match="ape"):
        build(tmp_path / "train", classes_from=str(tmp_path / "val"))
    with pytest.raises(FileNotFoundError, match="classes|class folder"):
        build(tmp_path / "val" / "cat")


def test_hidden_files_and_circles_of_links_are_left_out(tmp_path: Path, capsys) -> None:
    """Such as ``._1.png``, which macOS writes beside each file on other disks."""
    write(tmp_path, "cat/1.png", "dog/2.PNG", ".cache/3.png")
    (tmp_path / "cat" / "._1.png").write_bytes(b"no image")
    (tmp_path / "cat" / "notes.txt").touch()
    (tmp_path / "dog" / "up").symlink_to(tmp_path)
    dataset = build(tmp_path)
    labels = [dataset[i]["data_samples"].gt_label.item() for i in range(len(dataset))]
    assert labels == [0, 1]
    assert "left out 1 other file: 1 .txt" in capsys.readouterr().err

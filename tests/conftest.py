"""Fixtures of all tests."""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

# Tests share few cores, and a model of a few channels gains nothing from more.
torch.set_num_threads(1)


@dataclass(frozen=True)
class TinyVideos:
    """A data set of a few small videos.

    Attributes:
        root: Folder of the videos.
        train: List of the 8 training videos, a name and a label a line.
        val: List of the 7 validation videos.
        num_classes: Labels.
    """

    root: Path
    train: Path
    val: Path
    num_classes: int = 3


@pytest.fixture(scope="session")
def tiny_videos(tmp_path_factory: pytest.TempPathFactory) -> TinyVideos:
    """Videos of 24 frames of 64 x 32 pixels: noise over a colour that tells the class."""
    root = tmp_path_factory.mktemp("tiny_videos")
    videos = TinyVideos(root, root / "train.txt", root / "val.txt")
    rng = np.random.default_rng(0)
    for path, count in ((videos.train, 8), (videos.val, 7)):
        lines = []
        for number in range(count):
            label = number % videos.num_classes
            name = f"{path.stem}_{number}.mp4"
            frames = rng.integers(0, 128, (24, 32, 64, 3), dtype=np.uint8)
            frames[..., label] += 100
            _write(root / name, frames)
            lines.append(f"{name} {label}\n")
        path.write_text("".join(lines))
    return videos


def _write(path: Path, frames: np.ndarray) -> None:
    height, width = frames.shape[1:3]
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), 12, (width, height))
    for frame in frames:
        writer.write(frame)
    writer.release()

"""Tiny videos and annotations, which fixtures write into folders."""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np


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


def write_tiny_videos(root: Path) -> TinyVideos:
    """Write videos of noise over a colour that tells the class, and their lists."""
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


def write_prediction_data(data: Path) -> None:
    """Write data of anticipation and early recognition, where their configs expect it."""
    from lab.synthetic.cues import CuesSpec
    from lab.synthetic.directions import PhasesSpec
    from lab.synthetic.render import Look
    from lab.synthetic.sequences import SequencesSpec

    for number in (55, 100):
        _write_kitchen(data / f"epic_kitchens{number}")
    _write_something(data / "sthv2")
    size = dict(train=3, val=3, test=3)
    PhasesSpec(**size, shortest=12, look=Look(frames=20)).write(data / "motion_phases")
    CuesSpec(**size).write(data / "motion_cues")
    CuesSpec(**size, asked=1, kinds=3).write(data / "motion_recall")
    SequencesSpec(train=1, val=1, test=1, actions=4).write(data / "motion_sequences")


def _write_kitchen(root: Path) -> None:
    """Three actions in a video of 30 frames, one of them too early."""
    frames = root / "P01" / "rgb_frames" / "P01_01"
    frames.mkdir(parents=True)
    for i in range(1, 31):
        cv2.imwrite(str(frames / f"frame_{i:010}.jpg"), np.full((25, 45, 3), 8 * i, np.uint8))
    rows = "P01_01_0,P01_01,2,4,0,1,0\nP01_01_1,P01_01,20,25,0,1,0\nP01_01_2,P01_01,28,30,1,1,1\n"
    for split in ("training", "validation"):
        (root / f"{split}.csv").write_text(rows)
    (root / "actions.csv").write_text("id,verb,noun,action\n0,0,1,take spoon\n1,1,1,put spoon\n")
    (root / "EPIC_many_shot_verbs.csv").write_text("verb_class,verb\n0,take\n")
    (root / "EPIC_many_shot_nouns.csv").write_text("noun_class,noun\n1,spoon\n")
    (root / "validation_unseen_participants_ids.csv").write_text("P01_01_0\nP01_01_1\n")
    for task in ("verbs", "nouns", "actions"):
        (root / f"validation_tail_{task}_ids.csv").write_text("P01_01_2\n")


def _write_something(root: Path) -> None:
    """Three videos of 8, 16 and 24 frames, of two classes."""
    (root / "videos").mkdir(parents=True)
    lines = []
    for i, frames in enumerate((8, 16, 24)):
        _write(root / "videos" / f"{i}.mp4", np.full((frames, 128, 128, 3), 100, np.uint8))
        lines.append(f"{i}.mp4 {1 - i % 2}\n")
    for split in ("train", "val"):
        (root / f"early_{split}_list_videos.txt").write_text("".join(lines))


def _write(path: Path, frames: np.ndarray) -> None:
    height, width = frames.shape[1:3]
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), 12, (width, height))
    for frame in frames:
        writer.write(frame)
    writer.release()

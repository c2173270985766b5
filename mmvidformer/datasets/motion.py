"""A small data set of real mp4 files whose class is the motion that they show.

For each split it writes clips, an annotation list for MMAction2's ``VideoDataset``
(``train.txt``: path and class) and a csv in EPIC-Kitchens-100's format (``train.csv``: the motion
is the verb, the shape of the object the noun).
"""

import csv
import json
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from mmvidformer.datasets.motion_render import (
    DIRECTIONS,
    SHAPES,
    Look,
    camera,
    render,
    trajectory,
)
from mmvidformer.datasets.motion_video import QUALITY, write_independent_frames

SPLITS = ("train", "val", "test")
EPIC_COLUMNS = (
    "narration_id", "participant_id", "video_id", "narration_timestamp", "start_timestamp",
    "stop_timestamp", "start_frame", "stop_frame", "narration", "verb", "verb_class", "noun",
    "noun_class", "all_nouns", "all_noun_classes",
)  # fmt: skip


@dataclass(frozen=True)
class MotionSpec:
    """All that decides the content of the data set.

    Args:
        classes: Directions of motion, 2 to 8.
        train: Clips of the training split.
        val: Clips of the validation split.
        test: Clips of the test split.
        fps: Frames a second of the files.
        seed: Seed of everything random.
        look: How clips look and move.

    Raises:
        ValueError: If ``classes`` is out of range, or the side is not a multiple of 64 pixels.
    """

    classes: int = 4
    train: int = 480
    val: int = 120
    test: int = 200
    fps: int = 25
    seed: int = 0
    look: Look = field(default_factory=Look)

    def __post_init__(self) -> None:
        if not 2 <= self.classes <= len(DIRECTIONS):
            raise ValueError(f"classes must be 2 to {len(DIRECTIONS)}, got {self.classes}")
        if self.look.size <= 0 or self.look.size % 64:
            # decord 0.6 fails on MPEG-4 files of some other small widths, 48 and 72 for two.
            raise ValueError(f"size must be a multiple of 64 pixels, got {self.look.size}")

    @property
    def verbs(self) -> list[str]:
        """Names of the classes, by number."""
        return list(DIRECTIONS)[: self.classes]


PRESETS = {
    "easy": MotionSpec(),
    "plain": MotionSpec(train=1600, look=Look(texture=0.0, colours="plain")),
    "hard": MotionSpec(
        classes=8,
        train=1600,
        val=320,
        test=320,
        look=Look(object_size=0.25, texture=25.0, clutter=4, shake=1.0, noise=4.0),
    ),
}


@dataclass(frozen=True)
class Clip:
    """One clip of a split: its file and what it shows."""

    split: str
    number: int
    verb: int
    noun: int

    @property
    def stem(self) -> str:
        """Name of the file without suffix, which is also EPIC's video id."""
        return f"{self.split}_{self.number:05d}"

    @property
    def path(self) -> str:
        """Path below the root of the data set."""
        return f"{self.split}/{self.stem}.mp4"


def list_clips(spec: MotionSpec, split: str) -> list[Clip]:
    """The clips of a split; motions and shapes take turns, so that they are balanced."""
    count = getattr(spec, split)
    return [
        Clip(split, i, i % spec.classes, (i // spec.classes) % len(SHAPES)) for i in range(count)
    ]


def clip_frames(spec: MotionSpec, clip: Clip) -> tuple[np.ndarray, np.ndarray]:
    """Draw a clip.

    Returns:
        RGB frames (frames, size, size, 3) and the object's centres (frames, 2) on the torus,
        before the camera's offset.
    """
    rng = np.random.default_rng([spec.seed, SPLITS.index(clip.split), clip.number])
    centres = trajectory(spec.look, spec.verbs[clip.verb], rng)
    offsets = camera(spec.look, rng)
    return render(spec.look, SHAPES[clip.noun], centres, offsets, rng), centres


def make_dataset(
    spec: MotionSpec,
    root: str | Path,
    workers: int = 1,
    force: bool = False,
    progress: Callable[[Iterable, int], Iterable] = lambda items, total: items,
) -> bool:
    """Write the data set.

    Args:
        spec: What to write.
        root: Folder to write into.
        workers: Processes that draw and encode.
        force: Replace a data set made with other arguments; its clips are deleted.
        progress: Wraps the iteration over finished clips; gets their number too.

    Returns:
        False if the folder held the very same data set already, and nothing was done.

    Raises:
        FileExistsError: If the folder holds one made with other arguments, and not ``force``.
    """
    root = Path(root)
    record = root / "motion.json"
    wanted = {
        "spec": asdict(spec),
        "verbs": spec.verbs,
        "nouns": list(SHAPES),
        "encoding": f"Motion JPEG, quality {QUALITY}",
    }
    if record.is_file():
        found = json.loads(record.read_text())
        if found == {**wanted, "complete": True}:
            return False
        if {k: found.get(k) for k in wanted} != wanted:
            if not force:
                raise FileExistsError(
                    f"{root} holds a motion data set made with other arguments ({record}); "
                    "choose another folder, or force to write over it"
                )
            for split in SPLITS:  # clips that the new one does not have would stay otherwise
                shutil.rmtree(root / split, ignore_errors=True)
    for split in SPLITS:
        (root / split).mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({**wanted, "complete": False}, indent=1))

    clips = [clip for split in SPLITS for clip in list_clips(spec, split)]
    write = partial(_write_clip, spec, root)
    if workers > 1:
        with ProcessPoolExecutor(workers) as pool:
            for _ in progress(pool.map(write, clips, chunksize=8), len(clips)):
                pass
    else:
        for _ in progress(map(write, clips), len(clips)):
            pass
    for split in SPLITS:
        _write_annotations(spec, root, split)
    (root / "classes.txt").write_text("\n".join(spec.verbs) + "\n")
    record.write_text(json.dumps({**wanted, "complete": True}, indent=1))
    return True


def _write_clip(spec: MotionSpec, root: Path, clip: Clip) -> None:
    cv2.setNumThreads(1)
    frames, _ = clip_frames(spec, clip)
    write_independent_frames(root / clip.path, frames, spec.fps)


def _write_annotations(spec: MotionSpec, root: Path, split: str) -> None:
    clips = list_clips(spec, split)
    lines = [f"{clip.path} {clip.verb}\n" for clip in clips]
    (root / f"{split}.txt").write_text("".join(lines))
    with open(root / f"{split}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, EPIC_COLUMNS)
        writer.writeheader()
        writer.writerows(_epic_row(spec, clip) for clip in clips)


def _epic_row(spec: MotionSpec, clip: Clip) -> dict[str, str | int]:
    verb, noun = spec.verbs[clip.verb], SHAPES[clip.noun]
    minutes, seconds = divmod(spec.look.frames / spec.fps, 60)
    return {
        "narration_id": f"{clip.stem}_0",
        "participant_id": "P00",
        "video_id": clip.stem,
        "narration_timestamp": "00:00:00.000",
        "start_timestamp": "00:00:00.00",
        "stop_timestamp": f"{int(minutes) // 60:02}:{int(minutes) % 60:02}:{seconds:05.2f}",
        "start_frame": 1,
        "stop_frame": spec.look.frames,
        "narration": f"move {noun} {verb}",
        "verb": verb,
        "verb_class": clip.verb,
        "noun": noun,
        "noun_class": clip.noun,
        "all_nouns": f"['{noun}']",
        "all_noun_classes": f"[{clip.noun}]",
    }

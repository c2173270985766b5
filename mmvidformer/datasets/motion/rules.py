"""A small data set of real mp4 files whose class is the motion that they show.

For each split it writes clips, an annotation list for MMAction2's ``VideoDataset``
(``train.txt``: path and class) and a csv in EPIC-Kitchens-100's format (``train.csv``: the motion
is the verb, the shape of the object the noun).
"""

from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from mmvidformer.datasets.motion.files import (
    EPIC_COLUMNS,
    SPLITS,
    Progress,
    epic_row,
    silent,
    write_csv,
    write_dataset,
    write_list,
)
from mmvidformer.datasets.motion.render import (
    DIRECTIONS,
    SHAPES,
    Look,
    camera,
    render,
    trajectory,
)


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
        self.look.check()

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
    progress: Progress = silent,
) -> bool:
    """Write the data set, unless it is there.

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
    return write_dataset(
        root,
        {"spec": asdict(spec), "verbs": spec.verbs, "nouns": list(SHAPES)},
        [clip for split in SPLITS for clip in list_clips(spec, split)],
        partial(_draw, spec),
        partial(_annotate, spec),
        spec.fps,
        workers,
        force,
        progress,
    )


@dataclass(frozen=True)
class FiledClip(Clip):
    """A clip in the folder of its class."""

    folder: str = ""

    @property
    def path(self) -> str:
        """Path below the root of the data set."""
        return f"{self.folder}/{self.stem}.mp4"


def make_class_folders(
    spec: MotionSpec,
    root: str | Path,
    workers: int = 1,
    force: bool = False,
    progress: Progress = silent,
) -> bool:
    """Write the clips of all splits into a folder for each class, without annotations.

    Arguments, result and errors are those of ``make_dataset``.
    """
    clips = [
        FiledClip(clip.split, clip.number, clip.verb, clip.noun, folder=spec.verbs[clip.verb])
        for split in SPLITS
        for clip in list_clips(spec, split)
    ]
    return write_dataset(
        root,
        {"spec": asdict(spec), "class_folders": spec.verbs},
        clips,
        partial(_draw, spec),
        lambda _: None,
        spec.fps,
        workers,
        force,
        progress,
        folders=spec.verbs,
    )


def _draw(spec: MotionSpec, clip: Clip) -> np.ndarray:
    return clip_frames(spec, clip)[0]


def _annotate(spec: MotionSpec, root: Path) -> None:
    for split in SPLITS:
        clips = list_clips(spec, split)
        write_list(root / f"{split}.txt", [(clip.path, clip.verb) for clip in clips])
        write_csv(root / f"{split}.csv", EPIC_COLUMNS, [_epic_row(spec, clip) for clip in clips])
    (root / "classes.txt").write_text("\n".join(spec.verbs) + "\n")


def _epic_row(spec: MotionSpec, clip: Clip) -> dict[str, str | int]:
    verb, noun = (clip.verb, spec.verbs[clip.verb]), (clip.noun, SHAPES[clip.noun])
    return epic_row(clip.stem, "P00", 0, 0, spec.look.frames, spec.fps, verb, noun)

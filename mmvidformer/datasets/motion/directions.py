"""Clips whose class is the direction in which an object moves.

Beside the lists for ``VideoDataset``, each split has a csv file in EPIC-Kitchens-100's format
(``train.csv``), whose verb is the direction and whose noun is the shape of the object.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmvidformer.datasets.motion.files import EPIC_COLUMNS, epic_row, write_csv
from mmvidformer.datasets.motion.render import DIRECTIONS, SHAPES, trajectory
from mmvidformer.datasets.motion.spec import SPLITS, Clip, MotionSpec


@dataclass(frozen=True)
class DirectionsSpec(MotionSpec):
    """Clips of a moving object, by its direction. Other arguments are those of ``MotionSpec``.

    Args:
        classes: Number of directions, 2 to 8.

    Raises:
        ValueError: If ``classes`` is out of range.
    """

    classes: int = 4

    def __post_init__(self) -> None:
        if not 2 <= self.classes <= len(DIRECTIONS):
            raise ValueError(f"classes must be 2 to {len(DIRECTIONS)}, got {self.classes}")

    @property
    def class_names(self) -> list[str]:
        """Names of the directions, by class."""
        return list(DIRECTIONS)[: self.classes]

    def centers(self, clip: Clip, rng: np.random.Generator) -> np.ndarray:
        """Draw the path of a clip's object."""
        return trajectory(self.look, self.class_names[clip.verb], self.look.frames, rng)

    def annotate(self, root: Path) -> None:
        """Write lists, names of the classes and csv files."""
        super().annotate(root)
        for split in SPLITS:
            rows = [self._row(clip) for clip in self.clips(split)]
            write_csv(root / f"{split}.csv", EPIC_COLUMNS, rows)

    def _row(self, clip: Clip) -> tuple[str | int, ...]:
        verb, noun = (clip.verb, self.class_names[clip.verb]), (clip.noun, SHAPES[clip.noun])
        return epic_row(self.name(clip), "P00", 0, (0, self.look.frames), self.fps, verb, noun)


class ClassFoldersSpec(DirectionsSpec):
    """The same clips, those of all splits in one folder per class, without annotations."""

    def folder(self, clip: Clip) -> str:
        """Return the folder of a clip below the root of the dataset."""
        return self.class_names[clip.verb]

    def annotate(self, root: Path) -> None:
        """Write nothing."""

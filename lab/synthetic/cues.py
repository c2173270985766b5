"""Clips of objects that appear one after another: the class is what appeared, in which order."""

from dataclasses import dataclass, field
from itertools import product

import numpy as np

from lab.synthetic.render import DIRECTIONS, SHAPES, Look, draw_parts
from lab.synthetic.settings import setting
from lab.synthetic.spec import Clip, MotionSpec
from mmvidformer.errors import UserError


@dataclass(frozen=True)
class CuesSpec(MotionSpec):
    """Clips in which one object replaces another. Other arguments are those of ``MotionSpec``.

    A clip has ``cues`` parts of equal length. In each, an object of one of ``kinds`` shapes, all
    equally likely, appears at a random place and moves in a random direction. The class is the
    sequence of the first ``asked`` shapes. Nothing later depends on them, so a model must remember
    them for the other parts.

    Raises:
        UserError: If ``kinds`` or ``asked`` is out of range.
    """

    train: int = 2000
    val: int = 200
    test: int = 600
    fps: int = 8
    look: Look = field(default_factory=lambda: Look(32, frames=6, texture=0.0, colors="plain"))
    cues: int = setting(3, "number of objects, one after another")
    kinds: int = setting(2, "number of shapes, 2 to 4")
    asked: int = setting(3, "number of objects whose shapes make the class, from the first one")

    def __post_init__(self) -> None:
        if not 2 <= self.kinds <= len(SHAPES):
            raise UserError(f"kinds must be 2 to {len(SHAPES)}, got {self.kinds}")
        if not 1 <= self.asked <= self.cues:
            raise UserError(f"asked must be 1 to {self.cues} (cues), got {self.asked}")

    @property
    def classes(self) -> list[tuple[int, ...]]:
        """Shapes of the asked objects, by class."""
        return list(product(range(self.kinds), repeat=self.asked))

    @property
    def class_names(self) -> list[str]:
        """Names of the classes, such as ``'circle square circle'``."""
        names = []
        for shapes in self.classes:
            names.append(" ".join(SHAPES[shape] for shape in shapes))
        return names

    def draw(self, clip: Clip) -> np.ndarray:
        """Draw the RGB frames (T, size, size, 3) of a clip."""
        rng = self.rng(clip)
        others = rng.integers(self.kinds, size=self.cues - self.asked)
        shapes = (*self.classes[clip.verb], *others)
        lengths = map(len, np.array_split(np.arange(self.look.frames), self.cues))
        parts = (
            (SHAPES[shape], rng.choice(list(DIRECTIONS)), length)
            for shape, length in zip(shapes, lengths, strict=True)
        )
        return draw_parts(self.look, parts, rng)

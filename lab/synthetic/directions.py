"""Clips of an object, whose class is its direction, or its directions in three phases."""

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from lab.synthetic.render import DIRECTIONS, Look, trajectory
from lab.synthetic.settings import setting
from lab.synthetic.spec import Clip, MotionSpec
from mmvidformer.errors import UserError

PHASES = (("right", "left"), ("down", "up"), ("right", "left"))
CLASSES = tuple(product(*PHASES))
JITTER = 0.04  # a phase ends up to this share of the clip earlier or later, never before 25% or 50%


@dataclass(frozen=True)
class DirectionsSpec(MotionSpec):
    """Clips of a moving object, by its direction. Other arguments are those of ``MotionSpec``.

    Raises:
        UserError: If ``classes`` is out of range.
    """

    classes: int = setting(4, "number of directions, 2 to 4")

    def __post_init__(self) -> None:
        if not 2 <= self.classes <= len(DIRECTIONS):
            raise UserError(f"classes must be 2 to {len(DIRECTIONS)}, got {self.classes}")

    @property
    def class_names(self) -> list[str]:
        """Names of the directions, by class."""
        return list(DIRECTIONS)[: self.classes]

    def centers(self, clip: Clip, rng: np.random.Generator) -> np.ndarray:
        """Draw the path of a clip's object."""
        return trajectory(self.look, self.class_names[clip.verb], self.look.frames, rng)


class ClassFoldersSpec(DirectionsSpec):
    """The same clips, those of all splits in one folder per class, without annotations."""

    def folder(self, clip: Clip) -> str:
        """Return the folder of a clip below the root of the dataset."""
        return self.class_names[clip.verb]

    def annotate(self, root: Path) -> None:
        """Write nothing."""


@dataclass(frozen=True)
class PhasesSpec(MotionSpec):
    """Clips whose class shows only over time, for early recognition.

    An object moves in three phases of about equal length: right or left, then down or up, then
    right or left. The eight classes are the eight combinations. At 25% of a clip only the first
    phase has been seen, and at 50% the first two, so that no model can be right in more than 2 and
    4 of 8 cases. The length of a clip does not depend on its class, and the frame is a torus
    (``render``), so that single frames hold no information on the class. Other arguments are those
    of ``MotionSpec``.
    """

    train: int = 640
    val: int = 160
    test: int = 320
    fps: int = 12
    look: Look = field(default_factory=lambda: Look(frames=40))
    shortest: int = setting(
        24, "frames of the shortest clips, at least 3; the longest have look.frames"
    )

    @property
    def class_names(self) -> list[str]:
        """Names of the classes, such as ``'right down left'``."""
        return [" ".join(phases) for phases in CLASSES]

    def centers(self, clip: Clip, rng: np.random.Generator) -> np.ndarray:
        """Draw the path of a clip's object."""
        frames = int(rng.integers(self.shortest, self.look.frames, endpoint=True))
        shares = np.array([1 / 3, 2 / 3]) + rng.uniform(-JITTER, JITTER, 2)
        turns = np.ceil(shares * frames).astype(int)
        lengths = np.diff([0, *turns, frames])
        steps = np.repeat([DIRECTIONS[d] for d in CLASSES[clip.verb]], lengths, axis=0)
        start = rng.uniform(0, self.look.size, 2)
        # The step of frame i leads to frame i + 1: up to frame turns[0] the object is in phase one.
        moved = np.cumsum(steps, axis=0) - steps
        return (start + self.look.speed * rng.uniform(0.8, 1.2) * moved) % self.look.size

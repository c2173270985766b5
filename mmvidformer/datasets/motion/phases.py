"""Clips whose class shows only over time, for early recognition.

An object moves in three phases of about equal length: right or left, then down or up, then right
or left. The eight classes are the eight ways to do so. At 25% of a clip only the first phase has
been seen, at 50% the first two, so that no model can be right more often than in 2 and 4 of 8
cases. Clips differ in length, whatever their class, and the frame is a torus
(``motion_render``), so that single frames tell nothing at all.
"""

from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from mmvidformer.datasets.motion.files import (
    SPLITS,
    Progress,
    silent,
    write_dataset,
    write_list,
)
from mmvidformer.datasets.motion.render import (
    DIRECTIONS,
    SHAPES,
    Look,
    camera,
    draw_speed,
    render,
)
from mmvidformer.datasets.motion.rules import Clip

PHASES = (("right", "left"), ("down", "up"), ("right", "left"))
CLASSES = tuple(product(*PHASES))
JITTER = 0.04  # a phase ends this share of the clip earlier or later; not before 25% or 50%


@dataclass(frozen=True)
class PhasesSpec:
    """All that decides the content of the data set.

    Args:
        train: Clips of the training split.
        val: Clips of the validation split.
        test: Clips of the test split.
        fps: Frames a second of the files.
        shortest: Frames of the shortest clips; the longest have ``look.frames``.
        seed: Seed of everything random.
        look: How clips look and move.

    Raises:
        ValueError: If the shortest clip has fewer than 12 frames or more than the longest, or the
            side is not a multiple of 64 pixels.
    """

    train: int = 640
    val: int = 160
    test: int = 320
    fps: int = 12
    shortest: int = 24
    seed: int = 0
    look: Look = field(default_factory=lambda: Look(frames=40))

    def __post_init__(self) -> None:
        if not 12 <= self.shortest <= self.look.frames:
            raise ValueError(
                f"shortest must be 12 to frames ({self.look.frames}), got {self.shortest}"
            )
        self.look.check()


def list_phase_clips(spec: PhasesSpec, split: str) -> list[Clip]:
    """The clips of a split; ``verb`` is the class. Classes and shapes take turns."""
    count, shapes = len(CLASSES), len(SHAPES)
    return [Clip(split, i, i % count, i // count % shapes) for i in range(getattr(spec, split))]


def phase_path(
    spec: PhasesSpec, clip: Clip
) -> tuple[np.ndarray, tuple[int, int], np.random.Generator]:
    """Draw where the object of a clip goes.

    Returns:
        Its centres (T, 2) on the torus, before the camera's offset; the frames from which it moves
        in its second and third direction; and the generator that draws the frames.
    """
    rng = np.random.default_rng([spec.seed, SPLITS.index(clip.split), clip.number])
    frames = int(rng.integers(spec.shortest, spec.look.frames, endpoint=True))
    shares = np.array([1 / 3, 2 / 3]) + rng.uniform(-JITTER, JITTER, 2)
    turns = tuple(np.ceil(shares * frames).astype(int).tolist())
    lengths = np.diff([0, *turns, frames])
    steps = np.repeat([DIRECTIONS[d] for d in CLASSES[clip.verb]], lengths, axis=0)
    start = rng.uniform(0, spec.look.size, 2)
    # The step of frame i leads to frame i + 1, so that up to frame ``turns[0]`` all is phase one.
    moved = np.cumsum(steps, axis=0) - steps
    return (start + draw_speed(spec.look, rng) * moved) % spec.look.size, turns, rng


def phase_frames(spec: PhasesSpec, clip: Clip) -> np.ndarray:
    """Draw a clip: RGB frames (T, size, size, 3)."""
    centres, _, rng = phase_path(spec, clip)
    look = replace(spec.look, frames=len(centres))
    return render(look, SHAPES[clip.noun], centres, camera(look, rng), rng)


def best_share(ratio: float) -> float:
    """Share of clips that a model can at best be right about when it sees this part of each.

    Args:
        ratio: Part of each clip that is seen: up to 0.25 (one phase), 0.5 (two), or all of it.

    Raises:
        ValueError: If where a phase ends decides, which differs from clip to clip.
    """
    ends = [(i + 1) / 3 for i in range(2)]
    if any(abs(ratio - end) <= JITTER for end in ends):
        raise ValueError(f"at {ratio} of a clip a phase ends in some and not in others")
    phases = 1 + sum(ratio > end for end in ends)
    return len({c[:phases] for c in CLASSES}) / len(CLASSES)


def make_phases(
    spec: PhasesSpec,
    root: str | Path,
    workers: int = 1,
    force: bool = False,
    progress: Progress = silent,
) -> bool:
    """Write the data set, unless it is there: clips and lists such as ``train.txt``.

    Arguments, result and errors are those of ``motion.make_dataset``.
    """
    return write_dataset(
        root,
        {"task": "phases", "spec": asdict(spec), "classes": CLASSES, "nouns": SHAPES},
        [clip for split in SPLITS for clip in list_phase_clips(spec, split)],
        partial(phase_frames, spec),
        partial(_annotate, spec),
        spec.fps,
        workers,
        force,
        progress,
    )


def _annotate(spec: PhasesSpec, root: Path) -> None:
    for split in SPLITS:
        clips = list_phase_clips(spec, split)
        write_list(root / f"{split}.txt", [(clip.path, clip.verb) for clip in clips])
    (root / "classes.txt").write_text("".join(" ".join(c) + "\n" for c in CLASSES))

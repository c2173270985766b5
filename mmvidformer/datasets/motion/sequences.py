"""Long videos of scripted actions, for anticipation: what comes next follows from what was seen.

In each video one action follows another without a pause (``motion_script``): an object of some
shape appears somewhere, moves in some direction for one to two seconds, and gives way to the next.
Annotations are in EPIC-Kitchens-100's formats: segments (``train.csv``), ``video_info.csv``, and
``actions.csv`` with the number of each pair of verb and noun.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
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
)
from mmvidformer.datasets.motion.render import (
    SHAPES,
    Look,
    camera,
    draw_background,
    draw_object,
    trajectory,
)
from mmvidformer.datasets.motion.script import (
    COUNT,
    NOUNS,
    VERBS,
    Action,
    foresee,
    write_script,
)

HALF_SECONDS = (2, 3, 4)  # lengths of actions; whole frames at 30 a second, as EPIC counts them
ACTIONS = tuple(product(range(COUNT), repeat=2))
PARTICIPANTS = 8


@dataclass(frozen=True)
class SequencesSpec:
    """All that decides the content of the data set.

    Args:
        train: Videos of the training split.
        val: Videos of the validation split.
        test: Videos of the test split.
        actions: Actions of a video.
        certainty: Chance of what the grammar prefers to come next.
        fps: Frames a second of the files, a multiple of 4 so that steps of 0.25 s are whole frames.
        seed: Seed of everything random.
        look: How videos look; ``look.frames`` is not used.

    Raises:
        ValueError: If an argument is out of range.
    """

    train: int = 240
    val: int = 40
    test: int = 80
    actions: int = 12
    certainty: float = 0.85
    fps: int = 8
    seed: int = 0
    look: Look = field(default_factory=lambda: Look(speed=2.0, texture=0.0, colours="plain"))

    def __post_init__(self) -> None:
        if not 0 < self.certainty <= 1:
            raise ValueError(f"certainty must be above 0 and at most 1, got {self.certainty}")
        if self.fps < 4 or self.fps % 4:
            raise ValueError(f"fps must be a multiple of 4, got {self.fps}")
        if self.actions < 2:
            raise ValueError(f"actions must be at least 2, got {self.actions}")
        self.look.check()


@dataclass(frozen=True)
class SequenceVideo:
    """One video of a split."""

    split: str
    number: int

    @property
    def participant_id(self) -> str:
        """Who made it, as EPIC-Kitchens would say."""
        return f"P{self.number % PARTICIPANTS + 1:02}"

    @property
    def video_id(self) -> str:
        """EPIC's name of the video; no two splits share one."""
        return f"{self.participant_id}_{SPLITS.index(self.split) + 1}{self.number:03}"

    @property
    def path(self) -> str:
        """Path below the root of the data set."""
        return f"{self.split}/{self.video_id}.mp4"


def list_videos(spec: SequencesSpec, split: str) -> list[SequenceVideo]:
    """The videos of a split."""
    return [SequenceVideo(split, i) for i in range(getattr(spec, split))]


def video_script(
    spec: SequencesSpec, video: SequenceVideo
) -> tuple[list[Action], list[int], np.random.Generator]:
    """Draw what happens in a video.

    Returns:
        Its actions; the first frame of each, from 0, and the video's number of frames; and the
        generator that draws the frames.
    """
    rng = np.random.default_rng([spec.seed, SPLITS.index(video.split), video.number])
    actions = write_script(spec.actions, spec.certainty, rng)
    lengths = rng.choice(HALF_SECONDS, spec.actions) * (spec.fps // 2)
    return actions, [0, *np.cumsum(lengths).tolist()], rng


def video_frames(spec: SequencesSpec, video: SequenceVideo) -> np.ndarray:
    """Draw a video: RGB frames (T, size, size, 3)."""
    actions, starts, rng = video_script(spec, video)
    background = draw_background(spec.look, rng)
    parts = []
    for (verb, noun), first, stop in zip(actions, starts[:-1], starts[1:], strict=True):
        look = replace(spec.look, frames=stop - first)
        centres = trajectory(look, VERBS[verb], rng)
        offsets = camera(look, rng)
        parts.append(draw_object(look, background, SHAPES[noun], centres, offsets, rng))
    return np.concatenate(parts)


def make_sequences(
    spec: SequencesSpec,
    root: str | Path,
    workers: int = 1,
    force: bool = False,
    progress: Progress = silent,
) -> bool:
    """Write the data set, unless it is there.

    Arguments, result and errors are those of ``motion.make_dataset``.
    """
    return write_dataset(
        root,
        {"task": "sequences", "spec": asdict(spec), "verbs": VERBS, "nouns": NOUNS},
        [video for split in SPLITS for video in list_videos(spec, split)],
        partial(video_frames, spec),
        partial(_annotate, spec),
        spec.fps,
        workers,
        force,
        progress,
    )


def _annotate(spec: SequencesSpec, root: Path) -> None:
    info = []
    for split in SPLITS:
        rows = []
        for video in list_videos(spec, split):
            actions, starts, _ = video_script(spec, video)
            rows += [
                epic_row(
                    video.video_id,
                    video.participant_id,
                    i,
                    starts[i],
                    starts[i + 1],
                    spec.fps,
                    (verb, VERBS[verb]),
                    (noun, NOUNS[noun]),
                )
                for i, (verb, noun) in enumerate(actions)
            ]
            size = f"{spec.look.size}x{spec.look.size}"
            info.append((video.video_id, f"{starts[-1] / spec.fps:.6f}", spec.fps, size))
        write_csv(root / f"{split}.csv", EPIC_COLUMNS, rows)
    columns = ("video_id", "duration", "fps", "resolution")
    write_csv(root / "video_info.csv", columns, [dict(zip(columns, v, strict=True)) for v in info])
    columns = ("id", "verb", "noun", "action")
    actions = [(i, v, n, f"{VERBS[v]} {NOUNS[n]}") for i, (v, n) in enumerate(ACTIONS)]
    write_csv(root / "actions.csv", columns, [dict(zip(columns, a, strict=True)) for a in actions])


def labelled(spec: SequencesSpec, split: str) -> np.ndarray:
    """Verb, noun and action (N, 3) of the segments that something can be observed before.

    All but the first of each video, which starts with it.
    """
    labels = [
        (verb, noun, ACTIONS.index((verb, noun)))
        for video in list_videos(spec, split)
        for verb, noun in video_script(spec, video)[0][1:]
    ]
    return np.array(labels)


def best_constant(labels: np.ndarray, k: int = 1) -> float:
    """Top-k accuracy of the best prediction that is always the same: the chance level.

    Args:
        labels: (N,), the right classes.
        k: Classes that are predicted.
    """
    counts = np.sort(np.unique(labels, return_counts=True)[1])
    return float(counts[-k:].sum() / len(labels))


def best_informed(
    spec: SequencesSpec, split: str, times: Sequence[float]
) -> dict[float, tuple[float, float, float]]:
    """Expected top-1 accuracy of who knows the grammar and what can be seen.

    An action counts as seen once two of its frames have been, which it takes to see a motion.

    Args:
        spec: The data set.
        split: A name of ``SPLITS``.
        times: Anticipation times in seconds.

    Returns:
        For each time the accuracies of verb, noun and action.
    """
    result = {}
    for time in times:
        shares = []
        for video in list_videos(spec, split):
            actions, starts, _ = video_script(spec, video)
            for i in range(1, len(actions)):
                shown = starts[i] - time * spec.fps
                seen = sum(start + 2 <= shown for start in starts[:i])
                chances = foresee(actions[:seen], i - seen + 1, spec.certainty)
                shares.append((chances.sum(1).max(), chances.sum(0).max(), chances.max()))
        result[time] = tuple(np.mean(shares, axis=0).tolist())
    return result

"""Long videos of scripted actions, for anticipation: past actions hint at the next one.

In each video one action follows another without a pause. An object of some shape
appears at a random place, moves in one direction for one to two seconds, and is replaced by the
next one. Annotations are in EPIC-Kitchens-100's formats: segments (``train.csv``), and
``actions.csv``, which numbers the pairs of verb and noun.

An action is a motion (verb) of a shape (noun), four of each.

- Nouns advance by one or by two around the circle of four. With probability ``certainty`` the step
  is the previous step, so that the next noun depends on the last two.
- With the same probability the next verb is the last one turned clockwise after a circle or square,
  and the same again after a triangle or star. It depends on the last verb and noun.

The last noun alone leaves two candidates. Without any past all four are equally likely, since
verbs, nouns and their pairs are equally frequent.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from lab.synthetic.render import DIRECTIONS, SHAPES, Look, draw_parts
from lab.synthetic.settings import setting
from lab.synthetic.spec import SPLITS, Clip, MotionSpec
from mmvidformer.errors import UserError
from mmvidformer.video.times import FrameTimes

COUNT = 4
VERBS = tuple(DIRECTIONS)
NOUNS = SHAPES
STEPS = (1, 2)  # of the nouns

Action = tuple[int, int]  # verb, noun

HALF_SECONDS = (2, 3, 4)  # lengths of actions: whole frames at 30 per second, EPIC's unit
ACTIONS = tuple(product(range(COUNT), repeat=2))
PARTICIPANTS = 8

SEGMENT = (
    *("narration_id", "participant_id", "video_id", "start_timestamp", "stop_timestamp"),
    *("start_frame", "stop_frame", "verb", "verb_class", "noun", "noun_class"),
)


def next_verb(last: Action) -> int:
    """Return the verb that most often follows an action."""
    verb, noun = last
    return (verb + (noun < COUNT // 2)) % COUNT


def distribution(past: list[Action], certainty: float) -> tuple[np.ndarray, np.ndarray]:
    """Compute the distributions of the next verb (4,) and noun (4,), which are independent.

    Args:
        past: All previous actions, of which the last two matter. May be empty.
        certainty: Probability of what the grammar prefers.
    """
    if not past:
        return np.full(COUNT, 1 / COUNT), np.full(COUNT, 1 / COUNT)
    verbs = np.full(COUNT, (1 - certainty) / (COUNT - 1))
    verbs[next_verb(past[-1])] = certainty
    noun = past[-1][1]
    nouns = np.zeros(COUNT)
    if len(past) == 1:
        nouns[[(noun + step) % COUNT for step in STEPS]] = 1 / len(STEPS)
    else:
        last_step = (noun - past[-2][1]) % COUNT
        for step in STEPS:
            nouns[(noun + step) % COUNT] = certainty if step == last_step else 1 - certainty
    return verbs, nouns


def write_script(length: int, certainty: float, rng: np.random.Generator) -> list[Action]:
    """Draw the actions of a video."""
    script: list[Action] = []
    for _ in range(length):
        verbs, nouns = distribution(script, certainty)
        script.append((int(rng.choice(COUNT, p=verbs)), int(rng.choice(COUNT, p=nouns))))
    return script


@dataclass(frozen=True)
class SequencesSpec(MotionSpec):
    """Videos of scripted actions. Other arguments are those of ``MotionSpec``.

    Raises:
        UserError: If ``fps`` is not a multiple of 4.
    """

    train: int = 240
    val: int = 40
    test: int = 80
    fps: int = setting(
        8, "frames per second, a multiple of 4, so that steps of 0.25 s are whole frames"
    )
    look: Look = field(default_factory=lambda: Look(speed=2.0, texture=0.0, colors="plain"))
    actions: int = setting(12, "number of actions per video")
    certainty: float = setting(0.85, "probability of the action that the grammar prefers")

    def __post_init__(self) -> None:
        if self.fps < 4 or self.fps % 4:
            raise UserError(f"fps must be a multiple of 4, got {self.fps}")

    def clips(self, split: str) -> list[Clip]:
        """List the videos of a split."""
        return [Clip(split, i) for i in range(getattr(self, split))]

    def name(self, clip: Clip) -> str:
        """Return the id of a video in EPIC-Kitchens' form; no two splits share one."""
        split = SPLITS.index(clip.split) + 1
        return f"P{clip.number % PARTICIPANTS + 1:02}_{split}{clip.number:03}"

    def script(self, clip: Clip) -> tuple[list[Action], list[int], np.random.Generator]:
        """Draw the script of a video.

        Returns:
            The actions; the first frame of each, from 0, and the number of frames; and the
            generator that draws the frames.
        """
        rng = self.rng(clip)
        actions = write_script(self.actions, self.certainty, rng)
        frames_of_half_second = int(FrameTimes(self.fps).count(0.5))
        lengths = rng.choice(HALF_SECONDS, self.actions) * frames_of_half_second
        return actions, [0, *np.cumsum(lengths).tolist()], rng

    def draw(self, clip: Clip) -> np.ndarray:
        """Draw the RGB frames (T, size, size, 3) of a video."""
        actions, starts, rng = self.script(clip)
        parts = (
            (NOUNS[noun], VERBS[verb], length)
            for (verb, noun), length in zip(actions, np.diff(starts), strict=True)
        )
        return draw_parts(self.look, parts, rng)

    def annotate(self, root: Path) -> None:
        """Write the csv files."""
        for split in SPLITS:
            rows = []
            for clip in self.clips(split):
                actions, starts, _ = self.script(clip)
                name = self.name(clip)
                for i, (verb, noun) in enumerate(actions):
                    start, stop = starts[i : i + 2]
                    times = [_clock(FrameTimes(self.fps).seconds(frame)) for frame in (start, stop)]
                    ids = f"{name}_{i}", name.partition("_")[0], name
                    rows.append(
                        (*ids, *times, start + 1, stop, VERBS[verb], verb, NOUNS[noun], noun)
                    )
            _write(root / f"{split}.csv", SEGMENT, rows)
        pairs = [(i, v, n, f"{VERBS[v]} {NOUNS[n]}") for i, (v, n) in enumerate(ACTIONS)]
        _write(root / "actions.csv", ("id", "verb", "noun", "action"), pairs)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(seconds, 60)
    return f"{int(minutes) // 60:02}:{int(minutes) % 60:02}:{seconds:05.2f}"


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])

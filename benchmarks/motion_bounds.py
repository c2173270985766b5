"""Bounds of the accuracies on a generated dataset: python -m benchmarks.motion_bounds FOLDER.

FOLDER holds a dataset of ``python -m lab generate`` with the preset ``phases``,
``sequences``, ``cues``, ``recall`` or ``images``. Prints the chance level, which is the accuracy of
the best constant prediction, and the best possible accuracy given what can be observed.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from lab.synthetic.cues import CuesSpec
from lab.synthetic.directions import CLASSES, JITTER, PhasesSpec
from lab.synthetic.render import Look
from lab.synthetic.sequences import (
    ACTIONS,
    COUNT,
    Action,
    SequencesSpec,
    distribution,
)
from lab.synthetic.spec import SPLITS
from mmvidformer.errors import UserError

KINDS = {"CuesSpec": CuesSpec, "PhasesSpec": PhasesSpec, "SequencesSpec": SequencesSpec}
RATIOS = (0.25, 0.5, 1.0)  # observed shares of a clip
MOST_SEQUENCES = 10**6  # which need about a GB
TIMES = (2.0, 1.5, 1.0, 0.5, 0.25)  # anticipation times in seconds


def best_constant(labels: Sequence[int], k: int = 1) -> float:
    """Compute the top-k accuracy of the best constant prediction.

    Args:
        labels: The right classes.
        k: Number of predicted classes.
    """
    counts = np.sort(np.bincount(labels))
    return float(counts[-k:].sum() / len(labels))


def best_of_phases(ratio: float) -> float:
    """Compute the best possible top-1 accuracy if the first part of each clip is observed.

    Args:
        ratio: Observed share of each clip.

    Raises:
        UserError: If a phase ends at that share in some clips and not in others.
    """
    ends = [(i + 1) / 3 for i in range(2)]
    if any(abs(ratio - end) <= JITTER for end in ends):
        raise UserError(f"at {ratio} of a clip a phase ends in some clips and not in others")
    phases = 1 + sum(ratio > end for end in ends)
    return len({c[:phases] for c in CLASSES}) / len(CLASSES)


def best_of_cues(spec: CuesSpec, observe: Callable[[tuple[int, ...]], Sequence[Hashable]]) -> float:
    """Compute the best possible top-1 accuracy from what is observed of a clip.

    Args:
        spec: The dataset.
        observe: What may be observed of a clip with these shapes; all of it is equally likely.
    """
    counts: dict[Hashable, Counter[tuple[int, ...]]] = defaultdict(Counter)
    for shapes in product(range(spec.kinds), repeat=spec.cues):
        seen = observe(shapes)
        for observed in seen:
            counts[observed][shapes[: spec.asked]] += 1 / len(seen)
    return sum(max(count.values()) for count in counts.values()) / spec.kinds**spec.cues


def forecast(past: list[Action], ahead: int, certainty: float) -> np.ndarray:
    """Compute the distribution (4, 4) of a future action, by verb and noun.

    Args:
        past: Known actions, of which the last two matter. May be empty.
        ahead: Number of steps ahead, 1 for the next action.
        certainty: Probability of what the grammar prefers.
    """
    states = {tuple(past[-2:]): 1.0}
    for _ in range(ahead):
        following: dict[tuple[Action, ...], float] = {}
        for state, chance in states.items():
            verbs, nouns = distribution(list(state), certainty)
            for verb, noun in zip(*np.nonzero(np.outer(verbs, nouns)), strict=True):
                after = (*state, (int(verb), int(noun)))[-2:]
                added = chance * verbs[verb] * nouns[noun]
                following[after] = following.get(after, 0.0) + added
        states = following
    chances = np.zeros((COUNT, COUNT))
    for state, chance in states.items():
        chances[state[-1]] += chance
    return chances


def anticipated(spec: SequencesSpec, split: str) -> np.ndarray:
    """List verb, noun and action (N, 3) of the segments that follow another one."""
    return np.array(
        [
            (verb, noun, ACTIONS.index((verb, noun)))
            for video in spec.clips(split)
            for verb, noun in spec.script(video)[0][1:]
        ]
    )


def best_of_sequences(spec: SequencesSpec, split: str, time: float) -> tuple[float, float, float]:
    """Compute the expected top-1 accuracy of an observer who knows the grammar.

    An action counts as observed once two of its frames have been, as a motion takes two.

    Args:
        spec: The dataset.
        split: A name of ``SPLITS``.
        time: Anticipation time in seconds.

    Returns:
        The accuracies of verb, noun and action.
    """
    shares = []
    for video in spec.clips(split):
        actions, starts, _ = spec.script(video)
        for i in range(1, len(actions)):
            shown = starts[i] - time * spec.fps
            seen = sum(start + 2 <= shown for start in starts[:i])
            chances = forecast(actions[:seen], i - seen + 1, spec.certainty)
            shares.append((chances.sum(1).max(), chances.sum(0).max(), chances.max()))
    return tuple(np.mean(shares, axis=0).tolist())


def bounds(record: dict) -> Iterator[str]:
    """List the bounds of a dataset.

    Args:
        record: Content of its ``motion.json``.
    """
    fields = record["spec"]
    spec = KINDS[record["kind"]](**{**fields, "look": Look(**fields["look"])})
    for split in (name for name in SPLITS if getattr(spec, name)):
        if not isinstance(spec, SequencesSpec):
            chance = best_constant([clip.verb for clip in spec.clips(split)])
            yield f"{split}: best constant prediction {chance:.1%}"
        else:
            labels = anticipated(spec, split)
            constant = _percent(map(best_constant, labels.T))
            yield (
                f"{split}, {len(labels)} segments: best constant prediction of verb, noun, action "
                f"{constant}; of five actions {best_constant(labels[:, 2], 5):.1%}"
            )
    if isinstance(spec, CuesSpec):
        yield f"best top-1 with all objects {best_of_cues(spec, lambda shapes: [shapes]):.1%}"
        for first in range(1, spec.asked):
            best = best_of_cues(spec, lambda shapes, first=first: [shapes[:first]])
            yield f"best top-1 with the first {first} of {spec.cues} objects {best:.1%}"
        if spec.asked < spec.cues:
            best = best_of_cues(spec, lambda shapes: [shapes[spec.asked :]])
            yield f"best top-1 without the first {spec.asked} of {spec.cues} objects {best:.1%}"
        blind = best_of_cues(spec, lambda shapes: [tuple(sorted(shapes))])
        yield f"best top-1 with all objects, but not their order {blind:.1%}"
        yield f"best top-1 with one frame, but not its place {best_of_cues(spec, list):.1%}"
    elif isinstance(spec, PhasesSpec):
        for ratio in RATIOS:
            yield f"best top-1 with {ratio:.0%} of each clip {best_of_phases(ratio):.1%}"
    elif spec.test:
        for time in TIMES:
            best = _percent(best_of_sequences(spec, "test", time))
            yield f"test, best expected top-1 of verb, noun, action {time} s before {best}"


def _percent(shares: Iterable[float]) -> str:
    return ", ".join(f"{share:.1%}" for share in shares)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the bounds of a dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of the dataset")
    file = parser.parse_args(argv).folder / "motion.json"
    record = json.loads(file.read_text()) if file.is_file() else {}
    if record.get("kind") not in KINDS:
        parser.error(f"{file} must be the record of a dataset of one of these presets")
    sequences = record["spec"].get("kinds", 1) ** record["spec"].get("cues", 1)
    if sequences > MOST_SEQUENCES:
        parser.error(f"{sequences} sequences of shapes are too many; the most is {MOST_SEQUENCES}")
    print(*bounds(record), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

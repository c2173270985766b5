"""The grammar of the scripted videos: which action follows which.

An action is a motion (verb) of a shape (noun), four of each.

- Nouns advance by one or by two around the circle of four. With probability ``certainty`` the step
  is the previous step, so that the next noun depends on the last two.
- With the same probability the next verb is the last one turned clockwise after a circle or square,
  and the same again after a triangle or star. It depends on the last verb and noun.

The last noun alone leaves two candidates. Without any past all four are equally likely, since
verbs, nouns and their pairs are equally frequent.
"""

import numpy as np

from mmvidformer.datasets.motion.render import DIRECTIONS, SHAPES

COUNT = 4
VERBS = tuple(DIRECTIONS)[:COUNT]  # clockwise
NOUNS = SHAPES
STEPS = (1, 2)  # of the nouns

Action = tuple[int, int]  # verb, noun


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

"""The grammar of the scripted videos: which action follows which.

An action is a motion (verb) of a shape (noun), each one of four. The next noun depends on the last
two: nouns go round by one or by two, and with the chance ``certainty`` by as many as the last time.
The next verb depends on the last verb and noun: with the same chance it is the last one turned
clockwise after a circle or square, and the same again after a triangle or star. So who knows
the last noun alone is left with two next ones, and who knows no past with all four, as verbs,
nouns and their pairs are all equally frequent.
"""

import numpy as np

from mmvidformer.datasets.motion.render import DIRECTIONS, SHAPES

COUNT = 4
VERBS = tuple(DIRECTIONS)[:COUNT]  # clockwise
NOUNS = SHAPES
STEPS = (1, 2)  # of the nouns

Action = tuple[int, int]  # verb, noun


def next_verb(last: Action) -> int:
    """The verb that most often follows an action."""
    verb, noun = last
    return (verb + (noun < COUNT // 2)) % COUNT


def distribution(past: list[Action], certainty: float) -> tuple[np.ndarray, np.ndarray]:
    """Chances of the next verb (4,) and of the next noun (4,), which are independent.

    Args:
        past: All actions so far, of which the last two matter; may be empty.
        certainty: Chance of what the grammar prefers.
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


def foresee(past: list[Action], ahead: int, certainty: float) -> np.ndarray:
    """Chances of the action after ``ahead`` steps, (4, 4) by verb and noun, from the past.

    Args:
        past: Actions that are known, of which the last two matter; may be empty.
        ahead: Steps ahead, 1 for the next action.
        certainty: That of the script.
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

"""Scores and labels that official evaluations read.

``python -m tests.tasks.official_scores FOLDER`` writes them as ``.npz``. The numbers in
``test_official.py`` are what the functions of the official code returned for them, of which only
what NumPy 2 does not know was changed:

- RULSTM (RULSTM/utils.py, commit e648c7e: ``topk_accuracy_multiple_timesteps`` and
  ``topk_recall_multiple_timesteps``, without and with ``classes``) for ``anticipation.npz``.
- EPIC-Kitchens-100's recognition (C1-Action-Recognition, commit c90b6f9: ``compute_metrics`` of
  ``verb``, ``noun`` and the scores of ``compute_action_scores``, as in ``evaluate.py``) for
  ``recognition.npz``.
- Charades (gsig/charades-algorithms, pytorch/utils/map.py, commit 927794c: ``charades_map``, the
  first result) for ``labels.npz``.
"""

import sys
from pathlib import Path

import numpy as np

TASKS = ("verb", "noun", "action")
PAIRS = [(i % 7, (5 * i) % 12) for i in range(30)]  # verb and noun of each action
MANY_SHOT = {"verb": [1, 3, 5], "noun": [0, 1, 2]}


def anticipation() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Scores (80, 3 times, classes) of each task, and labels (80, 3); later times know more."""
    rng = np.random.RandomState(0)
    actions = rng.randint(0, 12, size=80)
    labels = np.array([(*PAIRS[action], action) for action in actions])
    scores = {}
    for task, count, own in zip(TASKS, (7, 12, 30), labels.T, strict=True):
        scores[task] = rng.normal(size=(80, 3, count))
        scores[task][np.arange(80), :, own] += np.linspace(0, 2, 3)
    return scores, labels


def recognition() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Scores (90, classes) of verbs and nouns, and labels (90, 2)."""
    rng = np.random.RandomState(1)
    labels = np.stack([rng.randint(0, count, size=90) for count in (9, 11)], axis=1)
    scores = {}
    for task, count, own in zip(TASKS, (9, 11), labels.T, strict=False):
        scores[task] = 3 * rng.normal(size=(90, count))
        scores[task][np.arange(90), own] += 3
    return scores, labels


def several_labels() -> tuple[np.ndarray, np.ndarray]:
    """Scores (70, 6) from 0 to 1, and labels (70, 6), of which each video has at least one."""
    rng = np.random.RandomState(2)
    labels = (rng.rand(70, 6) < 0.3).astype(float)
    labels[np.arange(70), rng.randint(0, 6, size=70)] = 1
    return (rng.rand(70, 6) + 0.4 * labels) / 1.4, labels


def main(folder: Path) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (("anticipation", anticipation), ("recognition", recognition)):
        scores, labels = make()
        np.savez(folder / f"{name}.npz", labels=labels, **scores)
    scores, labels = several_labels()
    np.savez(folder / "labels.npz", labels=labels, scores=scores)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

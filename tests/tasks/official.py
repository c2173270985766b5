"""Files that the official evaluations of segments, boxes and frames read.

``python -m tests.tasks.official FOLDER`` writes them. The numbers in ``test_official.py`` are what
the official code gave for them, of which only what Python 3 and NumPy 2 do not know was changed:

- ActivityNet (``ANETdetection`` of Evaluation/eval_detection.py, commit 52e70eb, with
  ``check_status=False`` and the overlaps 0.3 to 0.7) for truth.json and found.json.
- AVA (Evaluation/get_ava_performance.py, same commit, ``-l labels.pbtxt -g truth.csv -d
  found.csv``).
- MS-TCN (eval.py, commit 33ed91c) for truth_<n>.txt and found_<n>.txt of each folder. Frames
  without a class are ``unlabeled`` in both files, and ``bg_class`` of ``edit_score`` and
  ``f_score`` is ``["background", "unlabeled"]``; they are left out of the accuracy.
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np

NAMES = ["jump", "run", "sit", "wave"]
VIDEOS = 12


def segments() -> tuple[dict, dict]:
    """Content of the files of truth and of found segments.

    A class has no found segment, found segments are double, of other classes or elsewhere, and a
    segment overlaps with the truth by exactly 0.7.
    """
    rng = np.random.RandomState(0)
    database, results = {}, {}
    for number in range(VIDEOS):
        truth, found = [], []
        for _ in range(rng.randint(0, 5)):
            start, label = rng.randint(0, 80), NAMES[rng.randint(4)]
            end = start + 10 * rng.randint(1, 4)
            truth.append(dict(segment=[float(start), float(end)], label=label))
            for _ in range(rng.randint(0, 4)):
                shift = rng.randint(-60, 61, size=2) / 10
                segment = [max(start + shift[0], 0.0), float(end + shift[1])]
                other = NAMES[rng.randint(3)]
                label = other if rng.rand() < 0.2 or label == "wave" else label
                found.append(dict(segment=segment, label=label, score=float(rng.rand())))
        for _ in range(rng.randint(0, 3)):
            start = float(rng.randint(0, 80))
            label = NAMES[rng.randint(3)]
            segment = [start, start + rng.randint(1, 30)]
            found.append(dict(segment=segment, label=label, score=float(rng.rand())))
        database[f"v{number}"] = dict(subset="validation", duration=120.0, annotations=truth)
        results[f"v{number}"] = found
    database["exact"] = dict(
        subset="validation", duration=20.0, annotations=[dict(segment=[0.0, 10.0], label="run")]
    )
    results["exact"] = [dict(segment=[0.0, 7.0], label="run", score=0.99)]
    truth = dict(database=database, taxonomy=[], version="VERSION 1.3")
    return truth, dict(results=results, external_data={}, version="VERSION 1.3")


def boxes() -> tuple[list[tuple], list[tuple]]:
    """Rows of truth, as in AVA's files, and of found boxes, with scores of four digits.

    A class has no equal scores, whose order the official code leaves to NumPy's version.
    """
    rng = np.random.RandomState(1)
    truth, found, taken = [], [], set()
    for number in range(VIDEOS):
        for second in range(rng.randint(1, 4)):
            where = f"v{number}", 902 + second
            for person in range(rng.randint(1, 4)):
                x, y = rng.randint(0, 50, size=2) / 100
                box = np.array([x, y, x + rng.randint(20, 50) / 100, y + 0.4])
                own = [label for label in range(1, 4) if rng.rand() < 0.5] or [1]
                truth += [(*where, *box.round(3), label, person) for label in own]
                for _ in range(rng.randint(1, 3)):
                    near = (box + rng.randint(-80, 81, size=4) / 1000).clip(0, 1).round(3)
                    for label in range(1, 5):
                        score = 0.3 * rng.rand() + 0.6 * (label in own) * rng.rand()
                        digits = round(10_000 * score) + 1
                        while (label, digits) in taken:
                            digits += 1
                        taken.add((label, digits))
                        found.append((*where, *near, label, digits / 10_000))
    return truth, found


# Names of the classes of the frames, and whether some frames have none.
FRAMES = {
    "background": ((*NAMES, "background"), False),
    "background_and_gaps": ((*NAMES, "background"), True),
    "no_background": (NAMES, False),
    "no_background_but_gaps": (NAMES, True),
}


def frames(case: str = "background") -> list[tuple[np.ndarray, np.ndarray]]:
    """Found and true classes of the frames of videos, for a case of ``FRAMES``; -1 is none."""
    names, gaps = FRAMES[case]
    count = len(names)
    rng = np.random.RandomState(2)
    videos = []
    for _ in range(VIDEOS):
        truth = np.repeat(rng.randint(0, count, size=8), rng.randint(5, 40, size=8))
        found = np.roll(truth, rng.randint(-6, 7))
        for _ in range(3):
            start = rng.randint(0, len(found) - 10)
            found[start : start + rng.randint(1, 10)] = rng.randint(0, count)
        for _ in range(3 * gaps):
            start = rng.randint(0, len(truth) - 10)
            truth[start : start + rng.randint(1, 10)] = -1
        videos.append((found, truth))
    return videos


def main(folder: Path) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in zip(("truth", "found"), segments(), strict=True):
        (folder / f"{name}.json").write_text(json.dumps(content))
    for name, rows in zip(("truth", "found"), boxes(), strict=True):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    items = (f'item {{\n  name: "{name}"\n  id: {i}\n}}\n' for i, name in enumerate(NAMES, 1))
    (folder / "labels.pbtxt").write_text("".join(items))
    for case, (names, _) in FRAMES.items():
        (folder / case).mkdir()
        for number, (found, truth) in enumerate(frames(case)):
            known = np.where(truth < 0, -1, found)
            for name, labels in (("found", known), ("truth", truth)):
                text = "\n".join([*names, "unlabeled"][label] for label in labels)
                (folder / case / f"{name}_{number}.txt").write_text(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

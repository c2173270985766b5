"""Accuracy of camera motion on real videos: python -m benchmarks.camera_motion VIDEO [...].

VIDEO is a file or a folder of videos whose camera stands still; videos whose camera moves are
listed and left out. Clips with a known motion are cut from them (``camera_windows``). Prints tables
by video, class and speed with 95% intervals (Wilson), and the time of a clip on one thread, for the
baselines of ``camera_baselines``, on all pixels and on those that a model sees, and for a model
(default: the shipped one).
"""

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

import cv2
import numpy as np
import torch

from benchmarks.camera_baselines import by_features, by_flow
from benchmarks.camera_windows import FRAMES, Unusable, Window, cut_windows
from benchmarks.outputs import parse_with_results, with_suffixes
from lab.synthetic.camera.clips import film
from lab.synthetic.camera.paths import (
    CLASSES,
    EDGE,
    FASTEST,
    THRESHOLD,
    draw_steps,
)
from lab.synthetic.camera.textures import SIDE, texture
from mmvidformer.apis import Recognizer
from mmvidformer.apis.factory import PUBLISHED

SIZE = 64  # what a model sees
SPEEDS = (THRESHOLD, 0.1, 0.2, FASTEST)
SURE = (0.0, 0.5, 0.7, 0.9, 1.0)
Method = Callable[[np.ndarray], tuple[int, float]]  # from frames to a class, and its probability


def smaller(method: Method) -> Method:
    """Let a method see clips of ``SIZE`` pixels."""

    def classify(frames: np.ndarray) -> tuple[int, float]:
        size = (SIZE, SIZE)
        return method(np.stack([cv2.resize(f, size, interpolation=cv2.INTER_AREA) for f in frames]))

    return classify


def by_model(config: str, checkpoint: str = PUBLISHED) -> Method:
    """Let a model classify clips, also where its answer is ``uncertain``."""
    recognizer = Recognizer(config, checkpoint, "cpu", clips=1)

    def classify(frames: np.ndarray) -> tuple[int, float]:
        shares = recognizer(frames).probabilities["class"]
        return int(shares.argmax()), float(shares.max())

    return classify


METHODS: dict[str, Method] = {
    "dense flow": lambda frames: (by_flow(frames), 1.0),
    "sparse features": lambda frames: (by_features(frames), 1.0),
}
METHODS = {
    f"{name}{text}": change(method)
    for name, method in METHODS.items()
    for text, change in (("", lambda method: method), (f", {SIZE} x {SIZE}", smaller))
}


def wilson(right: int, count: int) -> tuple[float, float]:
    """Return the 95% interval of a share (Wilson 1927)."""
    z = 1.96
    middle = (right + z * z / 2) / (count + z * z)
    half = z / (count + z * z) * (right * (count - right) / count + z * z / 4) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)


def share(right: Sequence[bool]) -> str:
    """Describe the share of right answers: ``'75.0% (30.1-95.4, n = 4)'``."""
    if not right:
        return ""
    low, high = wilson(sum(right), len(right))
    percent = f"{100 * sum(right) / len(right):.1f}%"
    return f"{percent} ({100 * low:.1f}-{100 * high:.1f}, n = {len(right)})"


def speed_group(clip: Window) -> str:
    """Name the range of the speed of a clip."""
    speed = np.abs(clip.velocity * EDGE).max()
    if speed < THRESHOLD:
        return "still" if speed == 0 else f"below {THRESHOLD}"
    top = next(top for top in SPEEDS[1:] if speed <= top + 1e-9)
    return f"{SPEEDS[SPEEDS.index(top) - 1]} to {top}"


def run(videos: Iterable[Path], count: int, seed: int, methods: dict[str, Method]) -> list[dict]:
    """Classify the clips of videos: a row for each clip, with a column for each method.

    Args:
        videos: Files.
        count: Number of clips of a video.
        seed: Random seed.
        methods: Functions of frames (T, S, S, 3), by their names.
    """
    rows = []
    for path in videos:
        try:
            clips = list(cut_windows(path, count, seed))
        except Unusable as error:
            print(f"{path.name}: left out, {error}", file=sys.stderr)
            continue
        for number, clip in enumerate(clips):
            row = {"video": path.name, "clip": number, "class": CLASSES[clip.label]}
            row |= {"speed": speed_group(clip), "ms": {}}
            for name, method in methods.items():
                start = time.process_time()
                label, row[f"{name}: probability"] = method(clip.frames)
                row[name] = CLASSES[label]
                row["ms"][name] = 1000 * (time.process_time() - start)
            rows.append(row)
        print(f"{path.name}: {len(clips)} clips", file=sys.stderr)
    return rows


def table(rows: list[dict], column: str, groups: Iterable[str], methods: Iterable[str]) -> str:
    """Format the accuracies of the methods, by the values of a column, in Markdown."""
    lines = [f"| {column} | {' | '.join(methods)} |", "|---" * (1 + len([*methods])) + "|"]
    for group in [*groups, "all"]:
        chosen = [row for row in rows if group in ("all", row[column])]
        cells = [share([row[name] == row["class"] for row in chosen]) for name in methods]
        lines.append(f"| {group} | {' | '.join(cells)} |")
    return "\n".join(lines)


def mixed_motions(method: Method, ratio: float, count: int = 360) -> dict[str, str]:
    """Classify generated clips of two motions.

    Args:
        method: Function of frames.
        ratio: Speed of the slower motion, as a share of that of the faster one.
        count: Number of clips.

    Returns:
        Shares of answers that name the faster, the slower, and neither motion; and the mean
        probability.
    """
    rng = np.random.default_rng(0)
    answers, probabilities = [], []
    for number in range(count):
        parts = rng.permutation(4)[:2]
        velocity = np.zeros(4)
        velocity[parts] = rng.uniform(0.1, FASTEST) * np.array([1, ratio]) * rng.choice([-1, 1], 2)
        steps = draw_steps(velocity / EDGE, FRAMES, rng)
        view = complex(*rng.uniform(0, SIDE, 2)), complex(rng.uniform(60, 110)), 2 * SIZE
        answer, probability = method(film(texture(9000 + number % 90), steps, *view))
        named = [1 + 2 * part + int(velocity[part] > 0) for part in parts]
        answers.append(named.index(answer) if answer in named else 2)
        probabilities.append(probability)
    shares = {}
    for number, motion in enumerate(("the faster", "the slower", "neither")):
        shares[motion] = share([answer == number for answer in answers])
    return shares | {"probability": f"{np.mean(probabilities):.2f}"}


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("videos", nargs="+", type=Path, help="videos, or folders of videos")
    parser.add_argument("--clips", type=int, default=180, help="number of clips of a video")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the windows")
    parser.add_argument("--model", nargs="+", default=["camera_motion"], help="CONFIG [CHECKPOINT]")
    parser.add_argument("--out", type=Path, help="csv file for the answers of every clip")
    args = parse_with_results(parser, argv, with_suffixes(""))
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    methods = METHODS | {"model": by_model(*args.model)}
    files: list[Path] = []
    for path in args.videos:
        files += sorted(path.iterdir()) if path.is_dir() else [path]
    rows = run(files, args.clips, args.seed, methods)
    if not rows:
        raise SystemExit("error: no video whose camera stands still")
    speeds = ["still", f"below {THRESHOLD}"]
    speeds += [f"{low} to {high}" for low, high in pairwise(SPEEDS)]
    groups = {"video": dict.fromkeys(row["video"] for row in rows), "class": CLASSES}
    for column, names in (groups | {"speed": speeds}).items():
        print(table(rows, column, names, methods), end="\n\n")
    names = [f"{low} to {high}" for low, high in pairwise(SURE)]
    for row in rows:
        row["probability"] = names[int(np.searchsorted(SURE, row["model: probability"])) - 1]
    print(table(rows, "probability", names, ["model"]), end="\n\n")
    for ratio in (0.5, 0.8, 1.0):
        print(f"two motions, one {ratio:g} as fast: {mixed_motions(methods['model'], ratio)}")
    for name in methods:
        print(f"{name}: {median(row['ms'][name] for row in rows):.1f} ms of CPU time a clip")
    if args.out:
        with open(args.out, "w", newline="") as file:
            fields = ["video", "clip", "class", "speed", "model: probability", *methods]
            writer = csv.DictWriter(file, fields, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()

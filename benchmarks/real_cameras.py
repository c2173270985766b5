"""Accuracy on cameras that really move: python -m benchmarks.real_cameras WINDOWS --out ROWS.csv.

WINDOWS is a folder of ``camera_kept``: seconds of the videos of
reports/benchmark/real_cameras_videos.csv, labelled by tracking at full resolution, or without a
label. A model and the baselines of ``camera_baselines`` see 8 whole frames of the second, with a
short side of 64 pixels, which the model crops to multiples of 8; the baselines also see 128 pixels.
Labels are by tracking too, which favors the baselines. ``--model CONFIG CHECKPOINT`` is another
model.

``python -m benchmarks.real_cameras ROWS.csv`` prints the tables of an earlier run: accuracy by
class, speed and probability where there is a label, and errors of the rates in all windows.
Intervals (95%) are by video: videos are drawn again and again with replacement (bootstrap).
"""

import argparse
import csv
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import torch

from benchmarks.camera_baselines import Points, dense_flow, fit_steps, sparse_features
from benchmarks.camera_kept import KeptWindows, resize
from benchmarks.camera_rates import (
    TRACKING,
    Row,
    interval,
    mean_of_sums,
    rates_table,
    shares_table,
)
from benchmarks.outputs import parse_with_results, with_suffixes
from lab.synthetic.camera.paths import CLASSES, EDGE, FPS, class_of, measure_shake
from mmvidformer.apis import Recognizer
from mmvidformer.apis.factory import PUBLISHED
from mmvidformer.models.camera_head import PER_SPEED
from mmvidformer.tasks.camera_motion import RATES

MODEL = "camera_motion"
SIDES = (64, 128)  # pixels of the short side that baselines see; the model sees 64
BASELINES = {
    f"{name}, {side}": (track, side)
    for side in SIDES
    for name, track in (("dense flow", dense_flow), ("sparse features", sparse_features))
}
NAMES = (MODEL, *BASELINES)
SURE = (0.0, 0.5, 0.7, 0.9, 1.0)
SPEEDS = (0.0, 0.1, 0.2, 0.5, 10.0)
KNOWN = "known"  # the part of the videos whose accuracy was known before
COLUMNS = ("part", "video", "second", "class", "speed", "probability", *NAMES)
COLUMNS += tuple(f"{name}: {rate}" for name in (TRACKING, *NAMES) for rate in RATES)


class Answer(NamedTuple):
    """What a method says of a window.

    Attributes:
        label: Number of the class.
        probability: Of the class.
        rates: Pan, tilt, zoom, roll and shake (5,), in ``UNITS``.
    """

    label: int
    probability: float
    rates: np.ndarray


def rates_of(speeds: np.ndarray, shake: float) -> np.ndarray:
    """Return rates (5,) of speeds (4,) and a shake."""
    return np.append(speeds * PER_SPEED, shake)


def by_baseline(track: Callable[..., Points], side: int) -> Callable[[np.ndarray], Answer]:
    """Let a baseline see frames (8, H, W, 3) with a short side of some pixels."""

    def measure(frames: np.ndarray) -> Answer:
        steps = fit_steps(resize(frames, side), track)
        velocity = steps.mean(axis=0) * FPS
        return Answer(class_of(velocity), 1.0, rates_of(velocity * EDGE, measure_shake(steps)))

    return measure


def by_model(config: str, checkpoint: str = PUBLISHED) -> Callable[[np.ndarray], Answer]:
    """Let a model see frames (8, H, W, 3), also where its answer is ``uncertain``."""
    recognizer = Recognizer(config, checkpoint, "cpu", clips=1)

    def measure(frames: np.ndarray) -> Answer:
        prediction = recognizer(frames)
        shares = prediction.probabilities["class"]
        rates = np.array([prediction.values[rate] for rate in RATES])
        return Answer(int(shares.argmax()), float(shares.max()), rates)

    return measure


def answer_windows(
    folder: Path, parts: dict[str, str], methods: dict[str, Callable[[np.ndarray], Answer]]
) -> list[Row]:
    """Let methods answer for the windows of a folder.

    Args:
        folder: Folder of ``camera_kept``.
        parts: ``'test'`` or ``'known'``, by the name of the video; default: ``'test'``.
        methods: Functions of frames (8, H, W, 3), by the names ``NAMES``.

    Returns:
        A row for each window; ``class`` is empty without a label.
    """
    rows = []
    for path in sorted(folder.glob("*.npz")):
        video, kept = path.name.removesuffix(".npz"), KeptWindows.load(path)
        for number, frames in enumerate(kept.frames):
            speeds = kept.speeds[number]
            row = {"part": parts.get(video, "test"), "video": video}
            row |= {"second": str(kept.starts[number]), "class": str(kept.labels[number])}
            row["speed"] = f"{np.abs(speeds).max():.3f}"
            row |= write_rates(TRACKING, rates_of(speeds, kept.shakes[number]))
            for name, method in methods.items():
                answer = method(frames)
                row[name] = CLASSES[answer.label]
                row |= write_rates(name, answer.rates)
                if name == MODEL:
                    row["probability"] = f"{answer.probability:.4f}"
            rows.append(row)
    return rows


def write_rates(name: str, rates: np.ndarray) -> Row:
    """Make the cells of the rates of a method."""
    return {f"{name}: {rate}": f"{number:.3g}" for rate, number in zip(RATES, rates, strict=True)}


def accuracy(rows: Sequence[Row], method: str) -> str:
    """Describe how often a method is right: ``'90.5% (82.1-97.0)'``.

    There is no interval if all answers are right, or none, or if there is one video.
    """
    right = np.array([row[method] == row["class"] for row in rows], dtype=float)
    share = f"{100 * right.mean():.1f}%"
    if right.min() == right.max() or len({row["video"] for row in rows}) == 1:
        return share
    low, high = interval(rows, np.stack([100 * right, np.ones_like(right)], axis=1), mean_of_sums)
    return f"{share} ({low:.1f}-{high:.1f})"


def table(rows: Sequence[Row], title: str, groups: dict[str, Callable[[Row], bool]]) -> str:
    """Format the accuracies by groups of rows, in Markdown."""
    columns = [title, *NAMES, "windows", "videos"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for group, belongs in groups.items():
        chosen = [row for row in rows if belongs(row)]
        if chosen:
            cells = [accuracy(chosen, name) for name in NAMES]
            videos = len({row["video"] for row in chosen})
            lines.append(f"| {group} | {' | '.join(cells)} | {len(chosen)} | {videos} |")
    return "\n".join(lines)


def print_tables(rows: Sequence[Row]) -> None:
    """Print the accuracies, the errors of the rates, and the wrong answers."""
    tracked = [row for row in rows if row["part"] != KNOWN]
    rows = [row for row in rows if row["class"]]
    test = [row for row in rows if row["part"] != KNOWN]
    groups = {name: lambda row, name=name: row["class"] == name for name in CLASSES}
    groups["all moving"] = lambda row: row["class"] != "static"
    groups["all"] = lambda row: True
    print(table(test, "class", groups), end="\n\n")
    print(table(test, "speed, moving cameras", in_ranges("speed", SPEEDS, moving=True)), end="\n\n")
    print(table(test, "probability", in_ranges("probability", SURE)), end="\n\n")
    windows = f"{len(tracked)} windows in {len({row['video'] for row in tracked})} videos"
    print(f"Rates, {windows}:", rates_table(tracked, NAMES), sep="\n\n", end="\n\n")
    print(shares_table(tracked, NAMES), end="\n\n")
    names = sorted({row["video"] for row in rows if row["part"] == KNOWN})
    known = {name: lambda row, name=name: row["video"] == name for name in names}
    print(table(rows, "video whose accuracy was known", known), end="\n\n")
    wrong: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row[NAMES[0]] != row["class"]:
            wrong[row["video"]][f"{row['class']} as {row[NAMES[0]]}"] += 1
    for video, answers in wrong.items():
        count = sum(row["video"] == video for row in rows)
        texts = ", ".join(f"{number} x {answer}" for answer, number in answers.items())
        print(f"{video}: {sum(answers.values())} of {count} wrong: {texts}")


def in_ranges(
    column: str, limits: Sequence[float], moving: bool = False
) -> dict[str, Callable[[Row], bool]]:
    """Make groups of rows by the ranges of a number."""

    def make(low: float, high: float) -> Callable[[Row], bool]:
        def belongs(row: Row) -> bool:
            inside = low < float(row[column]) <= high
            return inside and not (moving and row["class"] == "static")

        return belongs

    return {
        f"{low:g} to {high:g}": make(low, high)
        for low, high in zip(limits[:-1], limits[1:], strict=True)
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="folder of kept windows, or csv file of a run")
    parser.add_argument("--videos", type=Path, help="csv file with the part of each video")
    parser.add_argument("--out", type=Path, help="csv file for the answers")
    parser.add_argument("--model", nargs="+", default=[MODEL], help="CONFIG [CHECKPOINT]")
    args = parse_with_results(parser, argv, with_suffixes(""))
    if not args.source.is_dir():
        with open(args.source, newline="") as file:
            print_tables(list(csv.DictReader(file)))
        return
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    parts = {}
    if args.videos:
        with open(args.videos, newline="") as file:
            parts = {row["video"]: row["part"] for row in csv.DictReader(file)}
    methods = {MODEL: by_model(*args.model)}
    methods |= {name: by_baseline(*seen) for name, seen in BASELINES.items()}
    rows = answer_windows(args.source, parts, methods)
    if args.out:
        with open(args.out, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    print_tables(rows)


if __name__ == "__main__":
    main()

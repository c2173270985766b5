"""Accuracy on cameras that really move: python -m benchmarks.real_cameras FOLDER --out WINDOWS.csv.

FOLDER holds the videos of docs/benchmark/real_cameras_videos.csv, which says where they are from.
Seconds get a label by tracking, or none (``camera_tracking``: the rules). A model and the
baselines of ``camera_baselines`` then see 8 frames of the second: the square in its middle at 128 x
128 pixels. Labels are by tracking as well, at full resolution, so that they favor the baselines.
With ``--model CONFIG CHECKPOINT`` another model answers, and with ``--whole`` it sees whole frames.

``python -m benchmarks.real_cameras WINDOWS.csv`` prints the tables of an earlier run. Intervals
(95%) are by video: videos are drawn again and again with replacement (bootstrap).
"""

import argparse
import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import av
import cv2
import numpy as np
import torch

from benchmarks.camera_motion import METHODS, Method, by_model
from benchmarks.camera_tracking import label_windows
from mmvidformer.synthetic.camera.paths import CLASSES

SIZE = 128  # what the methods see
NAMES = ("camera_motion", "dense flow", "sparse features")
SURE = (0.0, 0.5, 0.7, 0.9, 1.0)
SPEEDS = (0.0, 0.1, 0.2, 0.5, 10.0)
KNOWN = "known"  # the part of the videos whose accuracy was known before
COLUMNS = ("part", "video", "second", "class", "speed", "probability", *NAMES)

Row = dict[str, str]


def middle_square(frames: np.ndarray) -> np.ndarray:
    """Cut the square in the middle of frames (T, H, W, 3), and resize it to (T, 128, 128, 3)."""
    height, width = frames.shape[1:3]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return whole_frames(frames[:, top : top + side, left : left + side])


def whole_frames(frames: np.ndarray) -> np.ndarray:
    """Resize frames (T, H, W, 3) to a short side of 128 pixels."""
    height, width = frames.shape[1:3]
    scale = SIZE / min(height, width)
    size = (round(scale * width), round(scale * height))
    return np.stack([cv2.resize(frame, size, interpolation=cv2.INTER_AREA) for frame in frames])


def classify_videos(
    videos: Iterable[Path],
    parts: dict[str, str],
    methods: dict[str, Method],
    view: Callable[[np.ndarray], np.ndarray] = middle_square,
) -> list[Row]:
    """Label the seconds of videos, and classify those with a label.

    Args:
        videos: Files.
        parts: ``'test'`` or ``'known'``, by the name of the file; default: ``'test'``.
        methods: Functions of frames (8, 128, 128, 3) that return a class and its probability.
        view: What the model sees of frames (8, H, W, 3): ``middle_square`` or ``whole_frames``.

    Returns:
        A row for each second with a label.
    """
    rows = []
    for path in videos:
        unlabeled: Counter[str] = Counter()
        count = len(rows)
        try:
            for window in label_windows(path):
                if not window.label:
                    unlabeled[window.reason] += 1
                    continue
                row = {"part": parts.get(path.name, "test"), "video": path.name}
                row |= {"second": str(window.start), "class": window.label}
                row["speed"] = f"{np.abs(window.speeds).max():.3f}"
                clip = middle_square(window.frames)
                for name, method in methods.items():
                    is_model = name == NAMES[0]
                    label, probability = method(view(window.frames) if is_model else clip)
                    row[name] = CLASSES[label]
                    if is_model:
                        row["probability"] = f"{probability:.4f}"
                rows.append(row)
        except (av.FFmpegError, IndexError, ValueError) as error:  # IndexError: no video stream
            print(f"{path.name}: left out, {error}", file=sys.stderr)
        reasons = ", ".join(f"{number} {reason}" for reason, number in unlabeled.items())
        print(f"{path.name}: {len(rows) - count} labels; none: {reasons}", file=sys.stderr)
    return rows


def accuracy(rows: Sequence[Row], method: str, draws: int = 10_000) -> str:
    """Describe how often a method is right: ``'90.5% (82.1-97.0)'``.

    There is no interval if all answers are right, or none, or if there is one video.
    """
    videos = defaultdict(list)
    for row in rows:
        videos[row["video"]].append(row[method] == row["class"])
    right = np.array([sum(answers) for answers in videos.values()])
    count = np.array([len(answers) for answers in videos.values()])
    share = f"{100 * right.sum() / count.sum():.1f}%"
    if right.sum() in (0, count.sum()) or len(videos) == 1:
        return share
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(videos), size=(draws, len(videos)))
    shares = 100 * right[drawn].sum(axis=1) / count[drawn].sum(axis=1)
    low, high = np.percentile(shares, [2.5, 97.5])
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
    """Print the accuracies by class, speed, probability and video, and the wrong answers."""
    test = [row for row in rows if row["part"] != KNOWN]
    groups = {name: lambda row, name=name: row["class"] == name for name in CLASSES}
    groups["all moving"] = lambda row: row["class"] != "static"
    groups["all"] = lambda row: True
    print(table(test, "class", groups), end="\n\n")
    print(table(test, "speed, moving cameras", in_ranges("speed", SPEEDS, moving=True)), end="\n\n")
    print(table(test, "probability", in_ranges("probability", SURE)), end="\n\n")
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
    parser.add_argument("source", type=Path, help="folder of videos, or csv file of a run")
    parser.add_argument("--videos", type=Path, help="csv file with the part of each video")
    parser.add_argument("--out", type=Path, help="csv file for the answers")
    parser.add_argument("--model", nargs="+", default=[NAMES[0]], help="CONFIG [CHECKPOINT]")
    parser.add_argument("--whole", action="store_true", help="the model sees whole frames")
    args = parser.parse_args(argv)
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
    methods = {NAMES[0]: by_model(*args.model)} | {name: METHODS[name] for name in NAMES[1:]}
    view = whole_frames if args.whole else middle_square
    rows = classify_videos(sorted(args.source.iterdir()), parts, methods, view)
    if args.out:
        with open(args.out, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    print_tables(rows)


if __name__ == "__main__":
    main()

"""Accuracy of camera motion on real videos: python -m benchmarks.camera_motion VIDEO [...].

VIDEO is a file or a folder of videos whose camera stands still; videos whose camera moves are
listed and left out. Clips with a known motion are cut from them (``camera_windows``). Prints tables
by video, class and speed with 95% intervals (Wilson), and the time of a clip on one thread, for the
baselines of ``camera_baselines``, on all pixels and on those that a model sees, and for a model.
"""

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median

import cv2
import numpy as np
import torch
from mmaction.structures import ActionDataSample

from benchmarks.camera_baselines import by_features, by_flow
from benchmarks.camera_windows import Unusable, Window, cut_windows
from mmvidformer.config import load_config
from mmvidformer.datasets.motion.camera.paths import CLASSES, EDGE, FASTEST, THRESHOLD
from mmvidformer.engine.loading import load_recognizer

SIZE = 64  # what a model sees
SPEEDS = (THRESHOLD, 0.1, 0.2, FASTEST)
Method = Callable[[np.ndarray], int]


def smaller(method: Method) -> Method:
    """Let a method see clips of ``SIZE`` pixels."""

    def classify(frames: np.ndarray) -> int:
        size = (SIZE, SIZE)
        return method(np.stack([cv2.resize(f, size, interpolation=cv2.INTER_AREA) for f in frames]))

    return classify


def by_model(config: str, checkpoint: str) -> Method:
    """Let a model classify clips."""
    model = load_recognizer(load_config(config), checkpoint)

    @torch.inference_mode()
    def classify(frames: np.ndarray) -> int:
        clip = torch.from_numpy(frames).permute(3, 0, 1, 2)[None]
        (found,) = model.test_step({"inputs": [clip], "data_samples": [ActionDataSample()]})
        return int(found.pred_score.argmax())

    return classify


METHODS: dict[str, Method] = {
    "dense flow": by_flow,
    f"dense flow, {SIZE} x {SIZE}": smaller(by_flow),
    "sparse features": by_features,
    f"sparse features, {SIZE} x {SIZE}": smaller(by_features),
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
        methods: Functions that map frames (T, S, S, 3) to a class, by their names.
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
                row[name] = CLASSES[method(clip.frames)]
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


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("videos", nargs="+", type=Path, help="videos, or folders of videos")
    parser.add_argument("--clips", type=int, default=180, help="number of clips of a video")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the windows")
    parser.add_argument("--model", nargs=2, metavar=("CONFIG", "CHECKPOINT"), help="of a model")
    parser.add_argument("--out", type=Path, help="csv file for the answers of every clip")
    args = parser.parse_args(argv)
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    methods = METHODS | ({"model": smaller(by_model(*args.model))} if args.model else {})
    folders = [sorted(path.iterdir()) if path.is_dir() else [path] for path in args.videos]
    files = [file for folder in folders for file in folder]
    rows = run(files, args.clips, args.seed, methods)
    if not rows:
        raise SystemExit("error: no video whose camera stands still")
    speeds = ["still", f"below {THRESHOLD}"]
    speeds += [f"{low} to {high}" for low, high in zip(SPEEDS, SPEEDS[1:], strict=False)]
    groups = {"video": dict.fromkeys(row["video"] for row in rows), "class": CLASSES}
    for column, names in (groups | {"speed": speeds}).items():
        print(table(rows, column, names, methods), end="\n\n")
    for name in methods:
        print(f"{name}: {median(row['ms'][name] for row in rows):.1f} ms of CPU time a clip")
    if args.out:
        with open(args.out, "w", newline="") as file:
            fields = ["video", "clip", "class", "speed", *methods]
            writer = csv.DictWriter(file, fields, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()

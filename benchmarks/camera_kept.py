"""Label the seconds of videos once, and keep them: python -m benchmarks.camera_kept VIDEOS WINDOWS.

Tracking takes minutes a video, and a model milliseconds a window. Each file of the folder VIDEOS
becomes WINDOWS/<name>.npz, unless it is there already. It holds, without pickles, the windows of
``camera_tracking`` in which tracking agreed: with a label, and without one.

``--rows ROWS.csv`` takes windows and labels from a run of ``benchmarks.real_cameras`` instead.
"""

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import av
import cv2
import numpy as np

from benchmarks.camera_rates import TRACKING, Row
from benchmarks.camera_tracking import MOMENTS, RATE, label_windows, read_steps
from mmvidformer.models.camera_head import PER_SPEED
from mmvidformer.tasks.camera_motion import RATES

SIDE = 128  # pixels of the short side of frames that are kept


@dataclass
class KeptWindows:
    """Seconds of a video in which tracking agreed.

    Attributes:
        starts: Their begins in seconds (N,).
        labels: Their classes (N,), ``''`` where the rules give none.
        speeds: Mean signed speeds (N, 4) of pan, tilt, zoom and roll, by tracking.
        shakes: Distances from the smooth path (N,), by tracking.
        frames: RGB frames (N, 8, H, W, 3) with a short side of 128 pixels, uint8.
    """

    starts: np.ndarray
    labels: np.ndarray
    speeds: np.ndarray
    shakes: np.ndarray
    frames: np.ndarray

    @classmethod
    def load(cls, path: Path) -> "KeptWindows":
        """Read a file of ``save``."""
        with np.load(path, allow_pickle=False) as file:
            return cls(**{field.name: file[field.name] for field in fields(cls)})

    def save(self, path: Path) -> None:
        """Write a file; one that is there is whole."""
        part = path.with_suffix(".part")
        with open(part, "wb") as file:
            np.savez_compressed(file, **vars(self))
        part.rename(path)


def resize(frames: np.ndarray, side: int) -> np.ndarray:
    """Resize frames (T, H, W, 3) to a short side of some pixels."""
    height, width = frames.shape[1:3]
    scale = side / min(height, width)
    size = (round(scale * width), round(scale * height))
    return np.stack([cv2.resize(frame, size, interpolation=cv2.INTER_AREA) for frame in frames])


def label_video(path: Path) -> tuple[KeptWindows | None, str]:
    """Label the seconds of a video: the windows, None if there are none, and what was found."""
    kept, frames, reasons = [], [], Counter[str]()
    try:
        for window in label_windows(path):
            reasons[window.reason or "labels"] += 1
            if np.isfinite(window.shake):
                kept.append(window)
                frames.append(resize(window.frames, SIDE))
                window.frames = frames[-1]
    except (av.FFmpegError, IndexError, ValueError) as error:  # IndexError: no video stream
        reasons[f"until it cannot be read, {error}"] += 1
    found = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    if not kept:
        return None, found
    windows = KeptWindows(
        np.array([window.start for window in kept]),
        np.array([window.label for window in kept]),
        np.stack([window.speeds for window in kept]),
        np.array([window.shake for window in kept]),
        np.stack(frames),
    )
    return windows, found


def keep_rows(path: Path, rows: Sequence[Row]) -> KeptWindows:
    """Keep the windows of a video that an earlier run had, with its labels and speeds."""
    frames = [resize(image[None], SIDE)[0] for image, *_ in read_steps(path)]
    starts = np.array([float(row["second"]) for row in rows])
    clips = [frames[round(start * RATE) :][:MOMENTS] for start in starts]
    rates = np.array([[float(row[f"{TRACKING}: {rate}"]) for rate in RATES] for row in rows])
    labels = np.array([row["class"] for row in rows])
    return KeptWindows(starts, labels, rates[:, :4] / PER_SPEED, rates[:, 4], np.stack(clips))


def main(argv: Sequence[str] | None = None) -> None:
    """Label the videos, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("videos", type=Path, help="folder of videos")
    parser.add_argument("windows", type=Path, help="folder for the windows")
    parser.add_argument("--rows", type=Path, help="csv file of benchmarks.real_cameras")
    args = parser.parse_args(argv)
    cv2.setNumThreads(1)
    args.windows.mkdir(parents=True, exist_ok=True)
    earlier: list[Row] = []
    if args.rows:
        with open(args.rows, newline="") as file:
            earlier = list(csv.DictReader(file))
    for path in sorted(args.videos.iterdir()):
        out = args.windows / f"{path.name}.npz"
        rows = [row for row in earlier if row["video"] == path.name]
        if out.exists() or (args.rows and not rows):
            continue
        if args.rows:
            windows, found = keep_rows(path, rows), f"{len(rows)} windows of {args.rows}"
        else:
            windows, found = label_video(path)
        if windows is not None:
            windows.save(out)
        print(f"{path.name}: {found or 'no window'}", file=sys.stderr, flush=True)
    missing = {row["video"] for row in earlier} - {path.name for path in args.videos.iterdir()}
    for name in sorted(missing):
        print(f"{name}: not in {args.videos}", file=sys.stderr)


if __name__ == "__main__":
    main()

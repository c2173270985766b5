"""Clips of real cameras to train on: python -m benchmarks.real_clips VIDEOS OUT.

Cuts the seconds that reports/benchmark/real_cameras.csv labels from the videos of the folder
VIDEOS, 17 frames 1/16 s apart with a short side of 112 pixels, at most 24 static ones of a video.
The classes are whether the camera is static, or moves in any way. Writes the clips to OUT, with the
lists of MMAction2's VideoDataset. A model is trained on them, if OUT is data/real_clips, by

    mmvidformer train benchmarks/real_clips_config.py

The last third of the seconds of a video is for validation, so a model is tested on cameras that it
knows. Where a video has one class only, it may learn the scene. Clips for training are mirrored,
and played backward, too.
"""

import argparse
import csv
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import av
import cv2
import numpy as np

from benchmarks.camera_kept import resize
from benchmarks.outputs import parse_with_results
from lab.synthetic.render import write_film

ROWS = Path(__file__).parents[1] / "reports" / "benchmark" / "real_cameras.csv"
LISTS = ("train.txt", "val.txt", "classes.txt")
CLASSES = ("static", "moving")
FRAMES, FPS, SIDE = 17, 16, 112
MOST_STATIC = 24  # of a video
DISTINCT = 7  # frames of a clip, at least

Second = tuple[float, int]  # where a clip begins, and its class


def read_rows(path: Path, videos: Path) -> dict[str, list[Second]]:
    """Return the labelled seconds of each video that is in a folder."""
    seconds: dict[str, list[Second]] = defaultdict(list)
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["class"] and (videos / row["video"]).exists():
                moves = row["class"] != CLASSES[0]
                seconds[row["video"]].append((float(row["second"]), int(moves)))
    return seconds


def cut_clips(path: Path, seconds: Sequence[Second]) -> Iterator[tuple[float, int, np.ndarray]]:
    """Yield begin, class and frames (17, H, W, 3) of the clips of a video."""
    frames, times = [], []
    with av.open(str(path)) as file:
        for frame in file.decode(video=0):
            small = resize(frame.to_ndarray(format="rgb24")[None], SIDE)[0]
            frames.append(small[: small.shape[0] // 2 * 2, : small.shape[1] // 2 * 2])
            times.append(frame.time)
    after = np.array(times) - times[0]
    for begin, label in seconds:
        moments = begin + np.arange(FRAMES) / FPS
        nearest = [int(np.abs(after - moment).argmin()) for moment in moments]
        if len(set(nearest)) >= DISTINCT:
            yield begin, label, np.stack([frames[number] for number in nearest])


def variants(frames: np.ndarray) -> list[np.ndarray]:
    """Return a clip, and the same mirrored, played backward, and both."""
    both = [frames, frames[:, :, ::-1]]
    return [*both, *(clip[::-1] for clip in both)]


def main(argv: Sequence[str] | None = None) -> None:
    """Cut the clips, and print how many of each class there are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("videos", type=Path, help="folder of videos")
    parser.add_argument("out", type=Path, help="folder for the clips")
    parser.add_argument("--rows", type=Path, default=ROWS, help="csv of benchmarks.real_cameras")
    args = parse_with_results(parser, argv, lambda args: [args.out / name for name in LISTS])
    cv2.setNumThreads(1)
    rng = random.Random(0)
    seconds = read_rows(args.rows, args.videos)
    lists: dict[str, list[tuple[str, int]]] = {"train": [], "val": []}
    for part in lists:
        (args.out / part).mkdir(parents=True, exist_ok=True)
    for name, found in sorted(seconds.items()):
        static = [second for second in found if second[1] == 0]
        chosen = [second for second in found if second[1]]
        chosen += rng.sample(static, min(MOST_STATIC, len(static)))
        border = sorted(chosen)[len(chosen) * 2 // 3][0]
        for begin, label, frames in cut_clips(args.videos / name, chosen):
            part = "train" if begin < border else "val"
            made = variants(frames) if part == "train" else [frames]
            for number, clip in enumerate(made):
                file = f"{part}/{name}_{begin:g}_{number}.mp4"
                write_film(args.out / file, np.ascontiguousarray(clip), FPS)
                lists[part].append((file, label))
    for part, clips in lists.items():
        lines = [f"{file} {label}\n" for file, label in clips]
        (args.out / f"{part}.txt").write_text("".join(lines))
        counts = Counter(label for _, label in clips)
        print(part, {kind: counts[label] for label, kind in enumerate(CLASSES)})
    (args.out / "classes.txt").write_text("\n".join(CLASSES) + "\n")


if __name__ == "__main__":
    main()

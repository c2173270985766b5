"""Cuts in generated edits of videos: python -m benchmarks.cuts VIDEO [...] --out FOLDER.

An edit is made of shots of the videos, parts of frames at random places and times, which pan now
and then, with flashes of one or two frames in some. Shots meet at hard cuts, or by ``--join`` at
dissolves or fades through black. It is encoded as H.264. Prints precision and recall of each way to
find cuts, at most a frame off (a transition: within it), with 95% intervals by edit (bootstrap),
and the CPU time beside that of decoding alone.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from benchmarks.outputs import parse_with_results
from mmvidformer.video.readers import READERS
from mmvidformer.video.video import Video
from mmvidformer.video.writer import VideoOutput

SIZE, RATE = (320, 180), 25
LENGTHS = (0.6, 4.0)  # seconds of a shot
FLASHES, PANS, SAME = (
    0.15,
    0.4,
    0.5,
)  # shares of shots; the last: of the same video as the one before
TRANSITION = 12  # frames of a dissolve or a fade
JOINS = ("cut", "dissolve", "fade")


class Edit(NamedTuple):
    """A film, and the first and last frame at which each new shot may be said to begin."""

    path: Path
    cuts: list[tuple[int, int]]


class Score(NamedTuple):
    """How many cuts an edit has, were found, and were right."""

    true: int
    named: int
    right: int


def draw_shot(video: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Cut a shot (T, 180, 320, 3) from frames (N, H, W, 3) of a video."""
    count = min(round(rng.uniform(*LENGTHS) * RATE), len(video))
    first = rng.integers(len(video) - count + 1)
    height, width = video.shape[1:3]
    share = rng.uniform(0.5, 1.0)
    wide = share * min(width, height * SIZE[0] / SIZE[1])
    tall = wide * SIZE[1] / SIZE[0]
    places = rng.uniform(0, [width - wide, height - tall], (2, 2))
    if rng.random() > PANS:
        places[1] = places[0]
    images = []
    for image, t in zip(video[first : first + count], np.linspace(0, 1, count), strict=True):
        x, y = (places[0] * (1 - t) + places[1] * t).astype(int)
        part = image[y : y + int(tall), x : x + int(wide)]
        images.append(cv2.resize(part, SIZE, interpolation=cv2.INTER_AREA))
    shot = np.stack(images)
    if rng.random() < FLASHES and count > 12:
        flash = rng.integers(5, count - 6)
        shot[flash : flash + rng.integers(1, 3)] = 235
    return shot


def draw_edit(
    videos: Sequence[np.ndarray], path: Path, shots: int, join: str, rng: np.random.Generator
) -> Edit:
    """Draw and write an edit."""
    film, cuts = draw_shot(videos[0], rng), []
    number = 0
    for _ in range(shots - 1):
        number = number if rng.random() < SAME else int(rng.integers(len(videos)))
        shot, end = draw_shot(videos[number], rng), len(film)
        if join == "cut":
            film = np.concatenate([film, shot])
            cuts.append((end - 1, end + 1))
            continue
        t = np.linspace(0, 1, TRANSITION)[:, None, None, None]
        last, first = film[-TRANSITION:], shot[:TRANSITION]
        if join == "dissolve":
            between = last * (1 - t) + first * t
            cuts.append((end - TRANSITION, end))
        else:
            black = np.zeros((TRANSITION, *film.shape[1:]))
            between = np.concatenate([last * (1 - t), black, first * t])
            cuts.append((end - TRANSITION, end + 2 * TRANSITION))
        rest = film[:-TRANSITION], between.astype(np.uint8), shot[TRANSITION:]
        film = np.concatenate(rest)
    with VideoOutput(path, RATE) as output:
        for image in film:
            output.add(image)
    return Edit(path, cuts)


def shots_by_scenedetect(video: Video) -> list[int]:
    """Return the first frames of shots by PySceneDetect's ``AdaptiveDetector``."""
    from scenedetect import AdaptiveDetector, FrameTimecode

    detector, cuts = AdaptiveDetector(), []
    for number, image in video.reader.previews():
        timecode = FrameTimecode(number, fps=float(RATE))
        cuts += detector.process_frame(timecode, np.ascontiguousarray(image[..., ::-1]))
    cuts += detector.post_process(timecode)
    return [0, *(cut.frame_num for cut in cuts)]


def score(edit: Edit, find_shots: Callable[[Video], list[int]] = Video.shots) -> Score:
    """Compare the cuts that are found with those of an edit."""
    named = find_shots(Video.open(str(edit.path)))[1:]
    right = sum(any(low <= cut <= high for cut in named) for low, high in edit.cuts)
    return Score(len(edit.cuts), len(named), right)


def describe(scores: Sequence[Score], column: str, draws: int = 2000) -> str:
    """Describe a share of right cuts, of those that are true or named, and its interval."""
    counts = np.array([[row.right, getattr(row, column)] for row in scores])
    rng = np.random.default_rng(0)
    drawn = counts[rng.integers(len(counts), size=(draws, len(counts)))].sum(axis=1)
    low, high = np.percentile(100 * drawn[:, 0] / drawn[:, 1].clip(1), [2.5, 97.5])
    right, of = counts.sum(axis=0)
    return f"{100 * right / max(of, 1):.1f}% ({low:.1f}-{high:.1f}, n = {of})"


def edits_of(args: argparse.Namespace) -> list[Path]:
    """Return the files of the edits."""
    return [args.out / f"{args.join}_{number:02d}.mp4" for number in range(args.edits)]


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("videos", nargs="+", help="videos without cuts")
    parser.add_argument("--out", type=Path, required=True, help="folder for the edits")
    parser.add_argument("--edits", type=int, default=20, help="number of edits (default: 20)")
    parser.add_argument("--shots", type=int, default=15, help="shots of an edit (default: 15)")
    parser.add_argument("--seed", type=int, default=1, help="random seed of the edits (default: 1)")
    parser.add_argument("--join", choices=JOINS, default="cut", help="how shots meet")
    args = parse_with_results(parser, argv, edits_of)
    cv2.setNumThreads(1)
    videos = []
    for path in args.videos:
        video = Video.open(path)
        videos.append(np.stack(video.frames(range(len(video)))))
    edits = []
    for number, path in enumerate(edits_of(args)):
        rng = np.random.default_rng([args.seed, number, JOINS.index(args.join)])
        edits.append(draw_edit(videos, path, args.shots, args.join, rng))
    print("| way | precision | recall |\n|---|---|---|")
    ways = {"content": Video.shots}
    if find_spec("scenedetect"):
        ways["scenedetect"] = shots_by_scenedetect
    for how, find_shots in ways.items():
        scores = [score(edit, find_shots) for edit in edits]
        print(f"| {how} | {describe(scores, 'named')} | {describe(scores, 'true')} |")
    start = time.process_time()
    frames = sum(1 for edit in edits for _ in READERS["pyav"](str(edit.path)).previews())
    print(f"small frames: {1e3 * (time.process_time() - start) / frames:.3f} ms of CPU a frame")


if __name__ == "__main__":
    main()

"""Classify videos: mmvidformer demo CONFIG [CHECKPOINT] VIDEO|FOLDER|CAMERA.

Prints the most likely classes of each video, with --window those of each window of it, or the
values that a model of numbers predicts. A model of frames classifies each step of time, a model of
segments finds start, end and class of each segment. For anticipation, and early recognition frame
by frame, use mmvidformer stream.

Exit status: 0, or 1 if a video could not be read (the others are classified).
"""

import contextlib
import json
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from mmvidformer.apis import Capture, Prediction, Recognizer
from mmvidformer.apis.detector import PersonDetector
from mmvidformer.apis.loaded import PUBLISHED
from mmvidformer.config import load_config
from mmvidformer.datasets.own_videos import find_videos
from mmvidformer.engine.arguments import add_classes_argument, add_model_arguments
from mmvidformer.engine.errors import run_tool
from mmvidformer.tasks.annotations import read_spans
from mmvidformer.visualization.annotate import annotate_frame, annotate_video, prediction_bars
from mmvidformer.visualization.boxes import classify_boxes, write_boxes
from mmvidformer.visualization.timeline import draw_timeline, write_parts
from mmvidformer.visualization.videos import VideoOutput, check_display, target_of


class Failure(NamedTuple):
    """A video that could not be read, and the error."""

    source: str
    error: Exception


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Parse the command line."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser, checkpoint=None)
    parser.add_argument("source", help="video, folder of videos, or index of a camera (0, ...)")
    add_classes_argument(parser)
    parser.add_argument("--topk", type=int, default=5, help="number of classes (default: 5)")
    parser.add_argument("--window", type=float, help="seconds of a window (default: 2 if needed)")
    parser.add_argument("--stride", type=float, help="seconds between windows (default: half)")
    parser.add_argument("--min-score", type=float, default=0.3, help="of segments (default: 0.3)")
    parser.add_argument("--json", type=Path, help="file for all predictions")
    parser.add_argument("--csv", type=Path, help="file for segments of one class, or values")
    parser.add_argument("--out", type=Path, help="annotated video (.mp4), or a folder of them")
    parser.add_argument("--timeline", type=Path, help="picture of the classes over time, or folder")
    parser.add_argument("--truth", type=Path, help="csv of video, start, end, label: drawn above")
    parser.add_argument("--boxes", type=Path, help="csv in AVA's format; persons: detect them")
    parser.add_argument("--show", action="store_true", help="show in a window; q or Esc ends it")
    parser.add_argument("--seconds", type=float, help="how long to read a camera")
    args = parser.parse_intermixed_args(argv)
    if args.topk < 1:
        parser.error(f"--topk must be at least 1, got {args.topk}")
    args.is_camera = args.source.isdigit() and not Path(args.source).exists()
    if args.timeline and args.is_camera:
        parser.error("--timeline needs a file or a folder, got a camera")
    args.parts = bool(args.window is not None or args.timeline or args.csv or args.is_camera)
    spans = read_spans(args.truth) if args.truth else {}
    args.spans = {(args.truth.parent / name).resolve(): one for name, one in spans.items()}
    args.title = f"{args.source}: q ends" if args.show else None
    return args


def predict_files(
    recognizer: Recognizer, videos: Sequence[Path], args: Namespace
) -> Iterator[Prediction | Failure]:
    """Classify files or their parts, and write and show what is asked for."""
    for video in tqdm(videos, unit="video", disable=None):
        try:
            if recognizer.over == "boxes":
                moments = classify_boxes(recognizer, video, args.boxes)
                found = [one for boxes in moments.values() for one in boxes]
            elif args.parts or recognizer.over != "clip":
                options = dict(window=args.window, stride=args.stride, min_score=args.min_score)
                found = list(recognizer.timeline(video, **options))
            else:
                found = [recognizer(video)]
        except (OSError, ValueError) as error:
            yield Failure(str(video), error)
            continue
        yield from found
        if recognizer.over == "boxes":
            if args.out:
                write_boxes(video, moments, target_of(args.out, video, Path(args.source), ".mp4"))
            continue
        if not found:
            tqdm.write(f"{video}: no segment with a score of at least {args.min_score:g}")
            continue
        if args.timeline:
            target = target_of(args.timeline, video, Path(args.source), "_timeline.png")
            spans = args.spans.get(video.resolve(), ())
            draw_timeline(found, video.name, truth=[one[:3] for one in spans]).savefig(target)
            tqdm.write(f"written: {target}")
        if args.out or args.title:
            target = args.out and target_of(args.out, video, Path(args.source), ".mp4")
            try:
                if not annotate_video(video, found, target, args.title, args.topk):
                    return
                if target:
                    tqdm.write(f"written: {target}")
            except ValueError as error:  # decord reads some files that OpenCV does not
                yield Failure(str(video), error)


def predict_camera(recognizer: Recognizer, args: Namespace) -> Iterator[Prediction]:
    """Classify windows of a camera until it ends, q is pressed, or the time is over."""
    latest = None
    with (
        Capture(args.source) as source,
        VideoOutput(args.out, source.fps, args.title) as output,
    ):

        def frames() -> Iterator[np.ndarray]:
            for _, seconds, pixels in source.frames():
                if args.seconds is not None and seconds >= args.seconds:
                    return
                if latest is not None:
                    bars = prediction_bars(latest, args.topk)
                    if not output.add(annotate_frame(pixels, f"camera {args.source}", bars)):
                        return
                yield pixels

        options = args.window, args.stride, 0.0, args.min_score  # no delay
        for latest in recognizer.stream(frames(), source.fps, *options):
            yield latest


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    args = parse_args(argv)
    source = Path(args.source)
    videos = [source]
    if source.is_dir():
        videos = find_videos(source)
        print(f"{source}: {len(videos)} videos", file=sys.stderr)
    elif not args.is_camera and not source.is_file():
        raise FileNotFoundError(f"{source} does not exist, and is no camera index")
    if args.show:
        check_display()
    cfg = load_config(args.config, args.cfg_options)
    recognizer = Recognizer(cfg, args.checkpoint or PUBLISHED, args.device, args.classes)
    print(recognizer, file=sys.stderr)
    if recognizer.over == "boxes" and not args.boxes:
        raise ValueError("a model of boxes needs --boxes: a csv file in AVA's format, or persons")
    if recognizer.over == "boxes" and str(args.boxes) == "persons":
        args.boxes = PersonDetector(args.device)
    if args.is_camera:
        found = predict_camera(recognizer, args)
    else:
        found = predict_files(recognizer, videos, args)
    records, windows, failed = [], defaultdict(list), 0
    interrupt = [KeyboardInterrupt] if args.is_camera else []  # how to end a camera
    with contextlib.suppress(*interrupt):
        for one in found:
            if isinstance(one, Failure):
                failed += 1
                tqdm.write(f"failed: {one.error}", file=sys.stderr)
                records.append({"source": one.source, "error": str(one.error)})
            else:
                part = " {:.2f}-{:.2f} s".format(*one.seconds) if one.seconds else ""
                tqdm.write(f"{one.source or 'camera'}{part}: {one.text(args.topk)}")
                records.append(one.record(args.topk))
                windows[one.source].append(one)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        content = {"config": args.config, "checkpoint": args.checkpoint, "videos": records}
        text = json.dumps(content, indent=1, ensure_ascii=False)
        args.json.write_text(text + "\n", encoding="utf-8")
        print(f"written: {args.json}", file=sys.stderr)
    if args.csv:
        args.csv.parent.mkdir(parents=True, exist_ok=True)
        write_parts(args.csv, windows.values())
        print(f"written: {args.csv}", file=sys.stderr)
    if failed:
        print(f"{failed} of {len(videos)} videos failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run_tool(main))

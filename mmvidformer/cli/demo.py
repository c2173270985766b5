"""Classify videos: mmvidformer demo CONFIG [CHECKPOINT] VIDEO|FOLDER|CAMERA.

Prints the most likely classes of each video, with --window those of each window of it, or the
values that a model of numbers predicts. A model of frames classifies each step of time, a model of
segments finds start, end and class of each segment. For anticipation, and early recognition frame
by frame, use mmvidformer stream.

Exit status: 0, or 1 if a video could not be read (the others are classified).
"""

import contextlib
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
from tqdm import tqdm

from mmvidformer.apis import Capture, Prediction, Recognizer
from mmvidformer.apis.factory import PUBLISHED
from mmvidformer.config import load_config
from mmvidformer.datasets.own_videos import check_targets, find_videos
from mmvidformer.engine.arguments import add_model_arguments, add_source_arguments
from mmvidformer.tasks.annotations import read_spans
from mmvidformer.video.capture import is_stream
from mmvidformer.video.writer import VideoOutput, check_display, target_of
from mmvidformer.visualization import annotate
from mmvidformer.visualization.timeline import WindowTable, draw_timeline, open_rows

PARTS = {"clip": "windows", "steps": "steps", "segments": "segments", "boxes": "boxes"}


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Parse the command line."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser, checkpoint=None)
    add_source_arguments(parser)
    parser.add_argument("--window", type=float, help="seconds of a window (default: 2 if needed)")
    parser.add_argument("--stride", type=float, help="seconds between windows (default: half)")
    parser.add_argument("--min-score", type=float, default=0.3, help="of segments (default: 0.3)")
    parser.add_argument("--json", type=Path, help="file of JSON lines, one per prediction, at once")
    parser.add_argument(
        "--csv", type=Path, help="file for segments of one class, or values, at once"
    )
    parser.add_argument(
        "--windows",
        type=Path,
        help="csv file with a row for each window, for long videos: rows are written at once, and "
        "the same command goes on after the last one",
    )
    parser.add_argument("--timeline", type=Path, help="picture of the classes over time, or folder")
    parser.add_argument("--truth", type=Path, help="csv of video, start, end, label: drawn above")
    parser.add_argument("--boxes", type=Path, help="csv in AVA's format; persons: detect them")
    parser.add_argument("--seconds", type=float, help="how long to read a camera or an address")
    parser.add_argument(
        "--skip-static",
        type=float,
        metavar="T",
        help="repeat the answer for windows each of whose frames changed by less than T of 255",
    )
    args = parser.parse_intermixed_args(argv)
    args.is_stream = is_stream(args.source)
    others = [n for n in ("json", "csv", "out", "timeline", "show", "boxes") if getattr(args, n)]
    if args.windows and others:
        parser.error(f"--windows keeps rows only, which is not enough for --{others[0]}")
    if args.timeline and args.is_stream:
        parser.error("--timeline needs a file or a folder, got a stream")
    args.parts = bool(args.timeline or args.csv or args.windows or args.is_stream)
    args.parts |= args.window is not None
    if args.skip_static is not None and (args.skip_static <= 0 or not args.parts):
        parser.error(f"--skip-static must be positive and needs --window, got {args.skip_static}")
    spans = read_spans(args.truth) if args.truth else {}
    args.spans = {(args.truth.parent / name).resolve(): one for name, one in spans.items()}
    args.title = f"{args.source}: q ends" if args.show else None
    args.options = {n: getattr(args, n) for n in ("window", "stride", "min_score", "skip_static")}
    return args


def predict_files(recognizer: Recognizer, args: Namespace) -> Iterator[Prediction | dict]:
    """Classify files or their parts, and write and show what is asked for.

    A file that cannot be read is a dictionary of ``source`` and ``error``; the others follow.
    """
    for video in tqdm(args.videos, unit="video", disable=None):
        try:
            if recognizer.over == "boxes":
                found = annotate.classify_boxes(recognizer, video, args.boxes)
            elif args.parts or recognizer.over != "clip":
                found = classify_parts(recognizer, video, args)
                found = found if args.windows else list(found)
            else:
                found = [recognizer(video)]
            if args.parts or recognizer.over != "clip":
                count = "" if args.windows else f": {len(found)} {PARTS[recognizer.over]}"
                tqdm.write(f"{video}{count}")
            yield from found
            if not found and recognizer.over != "boxes":
                tqdm.write(f"{video}: no segment with a score of at least {args.min_score:g}")
                continue
            if args.timeline and recognizer.over != "boxes":
                target = target_of(args.timeline, video, Path(args.source), "_timeline.png")
                spans = args.spans.get(video.resolve(), ())
                draw_timeline(found, video.name, truth=[s[:3] for s in spans]).savefig(target)
                tqdm.write(f"written: {target}")
            if args.out or args.title:
                target = args.out and target_of(args.out, video, Path(args.source), ".mp4")
                if not annotate.annotate_video(video, found, target, args.title, args.topk):
                    return
                if target:
                    tqdm.write(f"written: {target}")
        except (OSError, ValueError) as error:  # decord reads some files that PyAV does not
            yield {"source": str(video), "error": str(error)}


def classify_parts(recognizer: Recognizer, video: Path, args: Namespace) -> Iterator[Prediction]:
    """Classify windows, steps or segments of a file, and show the progress."""
    total, done = None, 0
    if recognizer.over == "clip":
        opened = recognizer.pipeline.open(video)
        spans, fps = recognizer.windows(opened, args.window, args.stride), opened["avg_fps"]
        total = len(spans)
        if args.windows:
            seconds = [(first / fps, (last + 1) / fps) for first, last in spans]
            done = args.windows.count(str(video), seconds)
    found = recognizer.timeline(video, **args.options, first=done)
    bar = dict(desc=video.name, total=total, initial=done, unit="window", leave=False)
    yield from tqdm(found, **bar, disable=None)


def predict_stream(recognizer: Recognizer, args: Namespace) -> Iterator[Prediction | dict]:
    """Classify windows of a camera or an address until it ends, q is pressed, or time is over.

    A lost connection is a dictionary, as for ``predict_files``.
    """
    latest, offset, seconds, ended = None, None, 0.0, False
    with (
        Capture(args.source, args.queue, args.patience) as source,
        VideoOutput(args.out, source.fps, args.title and f"{source.name}: q ends") as output,
    ):

        def shown(part: Iterator) -> Iterator[np.ndarray]:
            nonlocal offset, seconds, ended
            for _, (_, seconds, pixels) in part:
                ended = args.seconds is not None and seconds >= args.seconds
                if latest is not None and not ended:
                    bars = annotate.prediction_bars(latest, args.topk)
                    ended = not output.add(annotate.annotate_frame(pixels, source.name, bars))
                if ended:
                    return
                offset = seconds if offset is None else offset
                yield pixels

        try:
            # A window must not have gaps: it starts anew where frames are missing.
            for _, part in groupby(enumerate(source.frames()), lambda one: one[1][0] - one[0]):
                offset = None
                for latest in recognizer.stream(shown(part), source.fps, **args.options):
                    if source.is_live:
                        source.note_delay(seconds)
                    times = tuple(offset + one for one in latest.seconds)
                    yield replace(latest, source=source.name, seconds=times)
                if ended:
                    break
        except ConnectionError as error:
            yield {"source": source.name, "error": str(error)}
        finally:  # ctrl-C too
            if latest is None:
                tqdm.write(f"{source.name}: no answer in {seconds:.2f} s", file=sys.stderr)
            if source.is_live:
                tqdm.write(source.report(), file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    args = parse_args(argv)
    source = Path(args.source)
    args.videos = [source]
    if source.is_dir():
        args.videos = find_videos(source)
        print(f"{source}: {len(args.videos)} videos", file=sys.stderr)
        for folder, suffix in ((args.out, ".mp4"), (args.timeline, "_timeline.png")):
            if folder:
                targets = [target_of(folder, video, source, suffix) for video in args.videos]
                check_targets(args.videos, targets)
    elif not args.is_stream and not source.is_file():
        raise FileNotFoundError(f"{source} does not exist, and is no camera or address")
    if args.show:
        check_display()
    cfg = load_config(args.config, args.cfg_options)
    recognizer = Recognizer(cfg, args.checkpoint or PUBLISHED, args.device, args.classes)
    print(recognizer, file=sys.stderr)
    if args.windows and recognizer.over != "clip":
        raise ValueError(f"a model of {recognizer.over} has no windows; use --json or --csv")
    args.windows = args.windows and WindowTable(args.windows)
    if recognizer.over == "boxes" and not args.boxes:
        raise ValueError("a model of boxes needs --boxes: a csv file in AVA's format, or persons")
    predict = predict_stream if args.is_stream else predict_files
    interrupt = [KeyboardInterrupt] if args.is_stream else []  # how to end a stream
    failed, repeated, count = [], 0, 0
    tables = (args.json, args.csv, args.windows)
    with open_rows(*tables, args.topk) as write, contextlib.suppress(*interrupt):
        for one in predict(recognizer, args):
            if isinstance(one, dict):
                tqdm.write(f"failed: {one['error']}", file=sys.stderr)
                failed.append(one["source"])
            else:
                print_prediction(one, args)
                repeated += one.static
                count += 1
            write(one)
    if args.skip_static is not None:
        print(f"{repeated} of {count} windows repeat the last answer", file=sys.stderr)
    for path in filter(None, (args.json, args.csv)):
        print(f"written: {path}", file=sys.stderr)
    if failed:
        print(f"{len(failed)} of {len(args.videos)} videos failed:", file=sys.stderr)
        print(*failed, sep="\n", file=sys.stderr)
    return 1 if failed else 0


def print_prediction(one: Prediction, args: Namespace) -> None:
    """Print a line; of the parts of files only if no table takes them."""
    if one.seconds is None or args.is_stream:
        part = " {:.2f}-{:.2f} s".format(*one.seconds) if one.seconds else ""
        tqdm.write(f"{one.source}{part}: {one.text(args.topk)}")
    elif not (args.json or args.csv or args.windows):
        tqdm.write("  {:.2f}-{:.2f} s: ".format(*one.seconds) + one.text(args.topk))

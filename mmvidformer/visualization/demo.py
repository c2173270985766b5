"""Predictions of files and streams one after the other, drawn, written and shown on the way."""

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
from tqdm import tqdm

from mmvidformer.apis import Capture, Prediction, Recognizer
from mmvidformer.visualization.annotate import (
    annotate_frame,
    annotate_video,
    classify_boxes,
    prediction_bars,
)
from mmvidformer.visualization.timeline import draw_timeline
from mmvidformer.visualization.videos import VideoOutput, target_of


def predict_files(
    recognizer: Recognizer, videos: Sequence[Path], args: Namespace
) -> Iterator[Prediction | dict]:
    """Classify files or their parts, and write and show what is asked for.

    ``args`` are the parsed arguments of ``mmvidformer demo``. For a file that cannot be read there
    is a dictionary of ``source`` and ``error``, and the others follow.
    """
    for video in tqdm(videos, unit="video", disable=None):
        try:
            if recognizer.over == "boxes":
                found = classify_boxes(recognizer, video, args.boxes)
            elif args.parts or recognizer.over != "clip":
                found = classify_parts(recognizer, video, args)
                found = found if args.windows else list(found)
            else:
                found = [recognizer(video)]
            yield from found
            if args.windows:
                continue
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
                if not annotate_video(video, found, target, args.title, args.topk):
                    return
                if target:
                    tqdm.write(f"written: {target}")
        except (OSError, ValueError) as error:  # decord reads some files that PyAV does not
            yield {"source": str(video), "error": str(error)}


def classify_parts(recognizer: Recognizer, video: Path, args: Namespace) -> Iterator[Prediction]:
    """Classify windows, steps or segments of a file, and show the progress."""
    options = dict(window=args.window, stride=args.stride, min_score=args.min_score)
    total, done = None, 0
    if recognizer.over == "clip":
        opened = recognizer.pipeline.open(video)
        spans, fps = recognizer.windows(opened, args.window, args.stride), opened["avg_fps"]
        total = len(spans)
        if args.windows:
            seconds = [(first / fps, (last + 1) / fps) for first, last in spans]
            done = args.windows.count(str(video), seconds)
    found = recognizer.timeline(video, **options, skip_static=args.skip_static, first=done)
    bar = dict(desc=video.name, total=total, initial=done, unit="window", leave=False)
    yield from tqdm(found, **bar, disable=None)


def predict_stream(recognizer: Recognizer, args: Namespace) -> Iterator[Prediction | dict]:
    """Classify windows of a camera or an address until it ends, q is pressed, or time is over.

    ``args`` are the parsed arguments of ``mmvidformer demo``. A lost connection is a
    dictionary, as for ``predict_files``.
    """
    latest, offset, seconds, ended = None, None, 0.0, False
    options = dict(window=args.window, stride=args.stride, skip_static=args.skip_static)
    options |= dict(min_score=args.min_score)
    with (
        Capture(args.source) as source,
        VideoOutput(args.out, source.fps, args.title and f"{source.name}: q ends") as output,
    ):

        def shown(part: Iterator) -> Iterator[np.ndarray]:
            nonlocal offset, seconds, ended
            for _, (_, seconds, pixels) in part:
                ended = args.seconds is not None and seconds >= args.seconds
                if latest is not None and not ended:
                    bars = prediction_bars(latest, args.topk)
                    ended = not output.add(annotate_frame(pixels, source.name, bars))
                if ended:
                    return
                offset = seconds if offset is None else offset
                yield pixels

        try:
            # A window must not have gaps: it starts anew where frames are missing.
            for _, part in groupby(enumerate(source.frames()), lambda one: one[1][0] - one[0]):
                offset = None
                for latest in recognizer.stream(shown(part), source.fps, **options):
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

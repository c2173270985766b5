"""Predict while a video, a camera or an address runs: mmvidformer stream CONFIG CHECKPOINT SOURCE.

Reads frame by frame, and predicts after each step the class so far (early recognition), what comes
next (anticipation), labels, numbers or the class of the step (docs/tasks.md): in a window (--show),
as a video (--out), as JSON lines (--json). Without any of these, JSON lines go to the standard
output. Memory and time per step are constant. Live sources drop frames if they come faster than
the model takes them; latency and dropped frames are printed at the end.
"""

import contextlib
import json
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence

from tqdm import tqdm

from mmvidformer.apis import Capture, Recognizer
from mmvidformer.config import load_config
from mmvidformer.engine.arguments import add_model_arguments, add_source_arguments
from mmvidformer.video.writer import VideoOutput, check_display
from mmvidformer.visualization.annotate import annotate_frame, stream_bars
from mmvidformer.visualization.horst import look_back


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Parse the command line."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser)
    add_source_arguments(parser)
    parser.add_argument("--json", help="file of JSON lines, one per step; - is the standard output")
    parser.add_argument(
        "--overlay",
        action="store_true",
        help="show what a HORST layer attends to: heat on the frame, past frames by weight",
    )
    parser.add_argument("--layer", type=int, default=-1, help="its index (default: the last)")
    parser.add_argument(
        "--ahead",
        type=float,
        default=1.0,
        help="seconds ahead to show, if the model anticipates at several times (default: 1)",
    )
    parser.add_argument("--restart", type=float, help="seconds between resets of the state")
    args = parser.parse_args(argv)
    if not (args.show or args.out):
        if args.overlay:
            parser.error("--overlay needs --show or --out")
        args.json = args.json or "-"
    return args


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    args = parse_args(argv)
    if args.show:
        check_display()
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(Capture(args.source, args.queue, args.patience))
        cfg = load_config(args.config, args.cfg_options)
        recognizer = Recognizer(cfg, args.checkpoint, args.device, args.classes)
        print(recognizer, file=sys.stderr)
        steps = recognizer.frame_by_frame(source, args.restart)
        if args.overlay:
            steps = look_back(recognizer, source, args.layer, args.restart)
        lines = sys.stdout if args.json == "-" else None
        if args.json and lines is None:
            lines = stack.enter_context(open(args.json, "w", encoding="utf-8"))
        title = f"{source.name}: q ends" if args.show else None
        rate = recognizer.frame_runner.pipeline.rate(source.fps)
        output = stack.enter_context(VideoOutput(args.out, rate, title))
        bar = stack.enter_context(tqdm(total=source.total, unit="frame", disable=None))
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))  # how to end a camera
        count, start = 0, time.perf_counter()
        for found in steps:
            count += 1
            frame, parts = (found.frame, found.annotations()) if args.overlay else (found, {})
            bar.update(frame.number + 1 - bar.n)
            if source.is_live:
                delay = source.note_delay(frame.seconds)
                bar.set_postfix_str(f"{1000 * delay:.0f} ms late, {source.dropped} dropped")
            if lines:
                for prediction in frame.predictions:
                    record = json.dumps(prediction.record(args.topk), ensure_ascii=False)
                    print(record, file=lines, flush=True)
            if args.show or args.out:
                heading = f"{frame.seconds:.2f} s, frame {frame.number}"
                bars = stream_bars(frame, args.topk, args.ahead)
                image = annotate_frame(frame.picture, heading, bars, **parts)
                if not output.add(image, None if source.is_live else frame.seconds):
                    break
    each = 1000 * (time.perf_counter() - start) / max(count, 1)
    written = "".join(f", {path}" for path in (args.out, args.json) if path and path != "-")
    print(f"{count} steps, {each:.1f} ms each{written}", file=sys.stderr)
    if source.is_live:
        print(source.report(), file=sys.stderr)

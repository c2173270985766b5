"""Predict as a video or a camera goes on: python tools/demo_stream.py CONFIG CHECKPOINT SOURCE.

Reads frame by frame, and tells after each step what is being done (early recognition) or what comes
next (anticipation): in a window (--show), as a film (--out), as JSON lines (--json). Without any of
these, JSON lines go to the standard output. Memory and time a step do not grow.
"""

import contextlib
import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from mmengine.config import DictAction
from tqdm import tqdm

from mmvidformer.apis import (
    Capture,
    build_frame_pipeline,
    load_stream_model,
    read_class_names,
    stream_predictions,
    stream_tasks,
    to_bars,
    to_record,
)
from mmvidformer.config import load_config
from mmvidformer.engine.launch import run_tool
from mmvidformer.visualization import Film, StreamPages, Window, watch_states


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("config", help="a config file, or the name of a shipped config (horst_*)")
    parser.add_argument("checkpoint", help="checkpoint file or address")
    parser.add_argument("source", help="video file, or number of a camera (0 is the first)")
    parser.add_argument("--show", action="store_true", help="in a window; q or Esc ends it")
    parser.add_argument("--out", type=Path, help="film of all steps (.mp4)")
    parser.add_argument("--json", help="file of JSON lines, one a step; - is the standard output")
    parser.add_argument(
        "--overlay",
        action="store_true",
        help="show what a HORST layer looks back at: heat over the frame, past frames by weight",
    )
    parser.add_argument("--layer", type=int, default=-1, help="which layer's (default: the last)")
    parser.add_argument("--topk", type=int, default=5, help="classes that are told (default: 5)")
    parser.add_argument(
        "--names",
        nargs="+",
        default=[],
        metavar="FILE",
        help="class names, text with one a line or csv; anticipation: verb=FILE noun=FILE ...",
    )
    parser.add_argument(
        "--ahead",
        type=float,
        default=1.0,
        help="seconds ahead that window and film show, of a model that names times (default: 1)",
    )
    parser.add_argument(
        "--restart", type=float, help="forget all every so many seconds (default: never)"
    )
    parser.add_argument("--device", default="cpu", help="such as cuda (default: cpu)")
    parser.add_argument(
        "--cfg-options", nargs="+", action=DictAction, help="settings to change, as key=value"
    )
    args = parser.parse_args(argv)
    if args.topk < 1:
        parser.error(f"--topk must be at least 1, got {args.topk}")
    if args.restart is not None and args.restart <= 0:
        parser.error(f"--restart must be above 0 seconds, got {args.restart}")
    if not (args.show or args.out):
        if args.overlay:
            parser.error("--overlay needs --show or --out")
        args.json = args.json or "-"
    return args


def main(argv: Sequence[str] | None = None) -> None:
    """Stream as the command line says."""
    args = parse_args(argv)
    cfg = load_config(args.config, args.cfg_options)
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(Capture(args.source))
        model = load_stream_model(cfg, args.checkpoint, args.device)
        names = read_class_names(args.names, stream_tasks(model))
        pipeline = build_frame_pipeline(cfg)
        rate = pipeline.pace().rate(source.fps)
        restart = None if args.restart is None else max(1, round(args.restart * rate))
        watch = stack.enter_context(watch_states(model.neck, args.layer)) if args.overlay else None
        window = stack.enter_context(Window(f"{args.source}: q ends")) if args.show else None
        lines = None
        if args.json == "-":
            lines = sys.stdout
        elif args.json:
            lines = stack.enter_context(open(args.json, "w", encoding="utf-8"))
        bar = stack.enter_context(tqdm(total=source.total, unit="frame", disable=None))
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))  # the way to end a camera
        pages = film = None
        steps, start = 0, time.perf_counter()
        for prediction in stream_predictions(model, pipeline.read(source), restart):
            frame = prediction.frame
            steps += 1
            bar.update(frame.number + 1 - bar.n)
            if lines:
                record = to_record(prediction, names, args.topk, pipeline.time_step)
                print(json.dumps(record, ensure_ascii=False), file=lines, flush=True)
            if window is None and args.out is None:
                continue
            picture = frame.picture
            bars = to_bars(prediction, names, args.topk, pipeline.time_step, args.ahead)
            if pages is None:
                pages = StreamPages(picture.shape[:2], bars, watch.order if watch else 0)
                if args.out:
                    args.out.parent.mkdir(parents=True, exist_ok=True)
                    film = stack.enter_context(Film(args.out, rate, pages.size))
            heading = f"{frame.seconds:.2f} s, frame {frame.number}"
            page = pages.draw(picture, heading, bars, watch.latest if watch else None)
            if film:
                film.add(page)
            if window and not window.show(page, None if source.is_camera else frame.seconds):
                break
    each = 1000 * (time.perf_counter() - start) / max(steps, 1)
    written = ", ".join(str(path) for path in (args.out, args.json) if path and path != "-")
    print(f"{steps} steps, {each:.1f} ms each{'; ' if written else ''}{written}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run_tool(main))

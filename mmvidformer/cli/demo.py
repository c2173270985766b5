"""Answer for videos, cameras and addresses: mmvidformer demo MODEL [CHECKPOINT] SOURCE...

A source is a video, a folder or list of videos, a camera (its number, as 0) or an address (rtsp://,
http:// and others of FFmpeg). A web address is a checkpoint if it stands before other sources and
its path does not end like a video or a playlist (.mp4, .ts, .m3u8, ...).

Prints the most likely classes of each video, with --window those of each window, or the values that
a model of numbers predicts. A model of frames classifies each step of time, a model of segments
finds start, end and class of each segment. A recurrent model (HORST, causal transformers) answers
after each frame, with constant memory and time: the class so far, or what comes next; with --window
it is treated as others are.

Exit status: 0; 1 if a source could not be read (the others are answered); 2 if an argument is
wrong, or a source does not exist (nothing is answered).
"""

import contextlib
import math
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from matplotlib.backend_bases import FigureCanvasBase
from tqdm import tqdm

from mmvidformer.apis import Recognizer
from mmvidformer.apis.factory import PUBLISHED, find_model
from mmvidformer.config import config_name, load_config
from mmvidformer.config.shipped import PACKAGE
from mmvidformer.data.sources import is_source, list_sources
from mmvidformer.engine.arguments import (
    add_classes_argument,
    add_cuts_argument,
    add_force_argument,
    add_overrides,
    add_person_arguments,
    add_speed_arguments,
    check_outputs,
    inexact_options,
    positive,
    positive_number,
)
from mmvidformer.errors import UserError
from mmvidformer.sinks import SINKS
from mmvidformer.tasks.annotations import match_spans
from mmvidformer.video.writer import check_display
from mmvidformer.visualization.source_answers import SourceAnswers

SAMPLE_WINDOW = 1.0  # seconds of a window of the clip that comes with a model


def make_parser() -> ArgumentParser:
    """Make the parser of the command line."""
    parser = ArgumentParser(
        usage="mmvidformer demo MODEL [CHECKPOINT] [SOURCE ...] [options]",
        description=__doc__,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", metavar="MODEL", help="config file, or name of a shipped config")
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="video, folder, camera or address (default: the clip that comes with "
        "camera_motion); before them CHECKPOINT: file, published://NAME, "
        "hf://ORG/NAME or URL (default: the published one of the config)",
    )
    parser.add_argument("--device", help="such as cuda:1 (default: a GPU if there is one)")
    add_speed_arguments(parser)
    add_overrides(parser)
    add_classes_argument(parser)
    add_answer_arguments(parser)
    add_output_arguments(parser)
    live = parser.add_argument_group("cameras and addresses")
    live.add_argument(
        "--seconds", type=positive_number, help="how long to read one", metavar="SECONDS"
    )
    live.add_argument(
        "--queue",
        type=positive,
        help="most frames that wait; then the oldest is dropped (default: 30)",
        metavar="N",
    )
    live.add_argument(
        "--patience",
        type=float,
        help="seconds for which a live address that went away is tried again (default: 30)",
        metavar="SECONDS",
    )
    return parser


def add_answer_arguments(parser: ArgumentParser) -> None:
    """Add what is asked of the model."""
    answers = parser.add_argument_group("answers")
    answers.add_argument(
        "--topk", type=positive, default=5, help="number of classes (default: 5)", metavar="N"
    )
    answers.add_argument(
        "--window",
        type=positive_number,
        help="seconds of a window (default: 2 if needed)",
        metavar="SECONDS",
    )
    answers.add_argument(
        "--stride",
        type=positive_number,
        help="seconds between windows (default: half)",
        metavar="SECONDS",
    )
    add_cuts_argument(answers)
    answers.add_argument(
        "--skip-static",
        type=positive_number,
        metavar="T",
        help="reuse the last prediction while frames differ by less than T of 255",
    )
    answers.add_argument(
        "--min-score",
        type=float,
        help="of models of segments: the least score of those that are kept, 0 to 1 (default: 0.3)",
        metavar="SCORE",
    )
    answers.add_argument(
        "--boxes",
        type=Path,
        help="of models that need boxes: csv in AVA's format, or the word persons, to detect them",
        metavar="FILE",
    )
    add_person_arguments(answers)
    answers.add_argument(
        "--restart",
        type=positive_number,
        help="of recurrent models: forget all that was seen, every so many seconds",
        metavar="SECONDS",
    )
    answers.add_argument(
        "--ahead",
        type=positive_number,
        help="of models of what comes next at several times: the one to print and draw, from now "
        "(default: 1); --json has all",
        metavar="SECONDS",
    )


def add_output_arguments(parser: ArgumentParser) -> None:
    """Add where answers go."""
    output = parser.add_argument_group("output")
    for name, sink in SINKS.items():
        option = f"--{name.replace('_', '-')}"
        output.add_argument(option, type=Path, help=sink.help, metavar="FILE")
    output.add_argument(
        "--timeline",
        type=Path,
        help="picture of the classes over time; a name without a suffix is a folder of them",
        metavar="PATH",
    )
    output.add_argument(
        "--truth", type=Path, help="csv of the true segments, for the timeline", metavar="FILE"
    )
    output.add_argument(
        "--out",
        type=Path,
        help="annotated video (.mp4); a name without a suffix is a folder",
        metavar="PATH",
    )
    add_force_argument(output)
    output.add_argument("--show", action="store_true", help="show in a window; q or Esc ends it")
    output.add_argument(
        "--overlay",
        action="store_true",
        help="of HORST: show what a layer attends to, heat on the frame, and past frames by weight",
    )
    output.add_argument(
        "--layer",
        type=int,
        help="of --overlay: number of the layer, from 0 (default: the last)",
        metavar="N",
    )


def sample_of(config: str, parser: ArgumentParser) -> str:
    """Return the video that comes with the weights of a config, or end with an error."""
    video = PACKAGE / "weights" / f"{config_name(config)}.mp4"
    if not Path(config).exists():
        load_config(config)  # names the mistake in a name
    if not video.is_file():
        parser.error("no SOURCE: a video, folder, camera or address")
    return str(video)


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Parse the command line, and check what can be checked before the model is loaded."""
    parser = make_parser()
    args = parser.parse_intermixed_args(argv)
    if not args.sources:
        args.sources = [sample_of(args.config, parser)]
        args.window = args.window or SAMPLE_WINDOW
    has_checkpoint = len(args.sources) > 1 and not is_source(args.sources[0])
    args.checkpoint = args.sources.pop(0) if has_checkpoint else PUBLISHED
    folders = [Path(word) for word in args.sources if Path(word).is_dir()]
    args.sources = list_sources(args.sources)
    check_options(parser, args)
    if args.out:
        check_apart(args.out, folders)
    check_results(args)
    videos = [source.name for source in args.sources]
    args.true_spans = match_spans(args.truth, videos) if args.truth else {}
    return args


def check_options(parser: ArgumentParser, args: Namespace) -> None:
    """End with an error if an option has a wrong value, or no effect without another one."""
    results = ("json", "csv", "subtitles", "out", "timeline", "show", "boxes")
    asked = [name for name in results if getattr(args, name)]
    if args.windows and asked:
        parser.error(f"--windows keeps rows only, which is not enough for --{asked[0]}")
    if args.out and not args.out.is_dir() and args.out.suffix.lower() not in ("", ".mp4"):
        parser.error(f"--out is an .mp4 file or a folder, got {args.out}")
    if args.timeline and not args.timeline.is_dir():
        suffix = args.timeline.suffix.lower().removeprefix(".")
        if suffix and suffix not in FigureCanvasBase.filetypes:
            parser.error(f"--timeline is a picture such as .png, or a folder, got {args.timeline}")
    if args.overlay and not (args.show or args.out):
        parser.error("--overlay needs --show or --out")
    is_live = any(source.is_stream for source in args.sources)
    if args.timeline and is_live:
        parser.error("--timeline needs a file or a folder, got a stream")
    if args.subtitles and len(args.sources) > 1:
        parser.error(f"--subtitles are of one video, got {len(args.sources)} sources")
    sizes = (args.window, args.stride, args.windows, args.csv, args.subtitles, args.timeline)
    has_windows = is_live or any(size is not None for size in sizes)
    needs = {
        "cuts": (has_windows or args.track, "--window or --track"),
        "skip_static": (has_windows, "--window"),
        "truth": (args.timeline, "--timeline"),
        "layer": (args.overlay, "--overlay"),
        "queue": (is_live, "a camera or an address"),
        "patience": (is_live, "a camera or an address"),
    }
    for name, (is_there, needed) in needs.items():
        if getattr(args, name) is not None and not is_there:
            parser.error(f"--{name.replace('_', '-')} needs {needed}, got {getattr(args, name)}")
    if args.patience is not None and not 0 <= args.patience < math.inf:
        parser.error(f"--patience must be at least 0 s, got {args.patience}")
    args.layer = -1 if args.layer is None else args.layer


def check_apart(out: Path, folders: Sequence[Path]) -> None:
    """Raise a ``UserError`` if films go into a folder whose videos are answered."""
    for folder in folders:
        if out.resolve().is_relative_to(folder.resolve()):
            what = f"--out {out} is in {folder}, whose films would be sources of the next run"
            raise UserError(f"{what}; name another folder")


def check_results(args: Namespace) -> None:
    """Raise an error if a file to write is read, or there already (``check_targets``)."""
    outputs = ("out", "timeline", *SINKS)
    targets: list[tuple[str, Path]] = []
    for suffix, place in ((".mp4", args.out), ("_timeline.png", args.timeline)):
        if place:
            targets += [(source.name, source.target(place, suffix)) for source in args.sources]
    files = {name: getattr(args, name) for name in SINKS if name != "windows"}
    targets += [(f"--{name}", path) for name, path in files.items() if path and str(path) != "-"]
    check_outputs(args, targets, *outputs)
    if args.windows:  # which adds rows to a file of its own
        old = Namespace(**{**vars(args), "force": True})
        check_outputs(old, [("--windows", args.windows)], *outputs)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    args = parse_args(argv)
    if args.show:
        check_display()
    cfg, args.checkpoint = find_model(args.config, args.checkpoint, args.cfg_options)
    recognizer = Recognizer(
        cfg, args.checkpoint, args.device, args.classes, **inexact_options(args)
    )
    print(recognizer, file=sys.stderr)
    answers = SourceAnswers(recognizer, args)
    # How to end a camera, or a video that is answered while it runs.
    interrupt = [KeyboardInterrupt] if answers.may_interrupt else []
    failed, repeated, count = [], 0, 0
    targets = {name: getattr(args, name) for name in SINKS if getattr(args, name)}
    with contextlib.suppress(*interrupt), contextlib.ExitStack() as stack:
        for name, target in targets.items():
            sink = SINKS[name](target, answers.sink_options)
            answers.sinks.append(stack.enter_context(sink))
        for answer in answers:
            if isinstance(answer, dict):
                tqdm.write(f"failed: {answer['error']}", file=sys.stderr)
                failed.append(answer["video"])
                for sink in answers.sinks:
                    sink.fail(**answer)
                continue
            is_shown = answer.ahead == answers.shown_ahead
            if is_shown:
                answers.print_prediction(answer)
            for sink in answers.sinks:
                if is_shown or sink.has_all_times:
                    sink.append(answer)
            repeated += bool(answer.static)
            count += 1
    if args.skip_static is not None:
        print(f"{repeated} of {count} windows repeat the last answer", file=sys.stderr)
    if recognizer.check is not None:
        print(recognizer.check.report(), file=sys.stderr)
    for name, path in targets.items():
        if name != "windows" and str(path) != "-":
            print(f"written: {path}", file=sys.stderr)
    if failed:
        print(f"{len(failed)} of {len(args.sources)} videos failed:", file=sys.stderr)
        print(*failed, sep="\n", file=sys.stderr)
    return 1 if failed else 0

"""The command line of the demo, checked before the model is loaded."""

import math
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mmvidformer.apis.factory import PUBLISHED
from mmvidformer.apis.windows import WINDOW
from mmvidformer.cli.answering import AnswerOptions
from mmvidformer.config import config_name, load_config
from mmvidformer.config.shipped import PACKAGE
from mmvidformer.data.sources import Source, is_source, list_sources
from mmvidformer.engine.annotation_options import AnnotationOptions
from mmvidformer.engine.arguments import (
    add_classes_argument,
    add_overrides,
    add_speed_arguments,
    check_outputs,
    positive,
)
from mmvidformer.engine.options import add_options, option, read_options
from mmvidformer.sinks import SINKS, Film, Sink
from mmvidformer.sinks.film import SHOWN
from mmvidformer.tasks.annotations import Span, match_spans
from mmvidformer.tasks.imports import select_rows
from mmvidformer.video.writer import check_display

SAMPLE_WINDOW = 1.0  # seconds of a window of the clip that comes with a model


@dataclass(frozen=True)
class DemoOptions:
    """A model, its sources, and what is written; what has no help is read by hand."""

    config: str
    checkpoint: str
    sources: Sequence[Source]
    asked: AnswerOptions
    targets: Sequence[tuple[type[Sink], Path]]
    classes: Sequence[str] = ()
    device: str | None = None
    int8: bool = False
    static: float | None = None
    cfg_options: dict[str, Any] | None = None
    true_spans: dict[str, list[Span]] = field(default_factory=dict)
    topk: int = option("number of classes", 5, type=positive, metavar="N")
    truth: Path | None = option(
        "true segments or moments, for the timeline: a csv file or an export of a tool",
        type=Path,
        metavar="FILE",
    )
    force: bool = option(
        "replace results that are there already, when the new ones are whole; without it that is "
        "an error before the work begins",
        False,
        action="store_true",
    )
    show: bool = option("show in a window; q or Esc ends it", False, action="store_true")
    overlay: bool = option(
        "of HORST: show what a layer attends to, heat on the frame, and past frames by weight",
        False,
        action="store_true",
    )
    layer: int | None = option(
        "of --overlay: number of the layer, from 0 (default: the last)", type=int, metavar="N"
    )


def parse_options(argv: Sequence[str] | None, description: str | None) -> DemoOptions:
    """Parse the command line, and check what can be checked before the model is loaded."""
    parser = make_parser(description)
    args = parser.parse_intermixed_args(argv)
    if not args.sources:
        args.sources = [sample_of(args.config, parser)]
        args.window = args.window or SAMPLE_WINDOW
    has_checkpoint = len(args.sources) > 1 and not is_source(args.sources[0])
    args.checkpoint = args.sources.pop(0) if has_checkpoint else PUBLISHED
    words, args.sources = args.sources, list_sources(args.sources)
    args.asked = read_options(AnswerOptions, args)
    files = {name: getattr(args, name) for name in SINKS}
    args.targets = [(SINKS[name], path) for name, path in files.items() if path]
    if args.show and not args.out:
        args.targets.append((Film, SHOWN))
    options = read_options(DemoOptions, args)
    check_options(parser, options)
    check_targets(args, words)
    if options.show:
        check_display()
    if args.windows and options.asked.window is None:  # or HORST would answer frame by frame
        options = replace(options, asked=replace(options.asked, window=WINDOW))
    if options.truth is None:
        return options
    table = read_options(AnnotationOptions, args).open(options.truth)
    videos = [source.name for source in options.sources]
    true_spans = match_spans(select_rows(table, ("segment", "moment")), videos)
    return replace(options, true_spans=true_spans)


def make_parser(description: str | None) -> ArgumentParser:
    """Make the parser of the command line."""
    parser = ArgumentParser(
        usage="mmvidformer demo MODEL [CHECKPOINT] [SOURCE ...] [options]",
        description=description,
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
    add_options(parser, AnswerOptions, "answers")
    files = parser.add_argument_group("files")
    for name, sink in SINKS.items():
        flag = f"--{name.replace('_', '-')}"
        files.add_argument(flag, type=Path, help=sink.help, metavar="PATH")
    add_options(parser, DemoOptions, "output")
    add_options(parser, AnnotationOptions, "annotations of --truth")
    return parser


def sample_of(config: str, parser: ArgumentParser) -> str:
    """Return the video that comes with the weights of a config, or end with an error."""
    video = PACKAGE / "weights" / f"{config_name(config)}.mp4"
    if not Path(config).exists():
        load_config(config)  # names the mistake in a name
    if not video.is_file():
        parser.error("no SOURCE: a video, folder, camera or address")
    return str(video)


def check_options(parser: ArgumentParser, options: DemoOptions) -> None:
    """End with an error if an option has a wrong value, or no effect without another one."""
    asked, sinks = options.asked, [sink for sink, _ in options.targets]
    if SINKS["windows"] in sinks and (len(sinks) > 1 or asked.boxes):
        names = [f"--{name}" for name, sink in SINKS.items() if sink in sinks and name != "windows"]
        what = names[0] if names else "--boxes"
        parser.error(f"--windows keeps rows only, which is not enough for {what}")
    is_live = any(source.is_stream for source in options.sources)
    has_windows = is_live or bool(asked.window or asked.stride)
    has_windows |= any(sink.needs_parts for sink in sinks)
    needs = {
        "cuts": (asked.cuts, has_windows or asked.track, "--window or --track"),
        "skip_static": (asked.skip_static, has_windows, "--window"),
        "truth": (options.truth, SINKS["timeline"] in sinks, "--timeline"),
        "overlay": (options.overlay or None, Film in sinks, "--show or --out"),
        "layer": (options.layer, options.overlay, "--overlay"),
        "queue": (asked.queue, is_live, "a camera or an address"),
        "patience": (asked.patience, is_live, "a camera or an address"),
    }
    for name, (value, is_used, needed) in needs.items():
        if value is not None and not is_used:
            shown = "" if value is True else f", got {value}"
            parser.error(f"--{name.replace('_', '-')} needs {needed}{shown}")
    if asked.patience is not None and not 0 <= asked.patience < math.inf:
        parser.error(f"--patience must be at least 0 s, got {asked.patience}")


def check_targets(args: Namespace, words: Sequence[str]) -> None:
    """Raise an error if a file to write is read, or there already, but a table that goes on."""
    inputs = {**vars(args), "sources": [*words, *(source.name for source in args.sources)]}
    new = [
        pair
        for sink, path in args.targets
        if path != SHOWN
        for pair in sink.targets(path, args.sources)
    ]
    outputs = (*SINKS, "targets")
    check_outputs(inputs, new, *outputs)
    if args.windows:
        inputs["force"] = True
        check_outputs(inputs, [("--windows", args.windows)], *outputs)

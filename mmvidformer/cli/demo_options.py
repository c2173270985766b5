"""The command line of the demo, checked before the model is loaded."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mmvidformer.engine import options as engine_options
from mmvidformer.engine.arguments import check_outputs, not_negative, positive, positive_number
from mmvidformer.engine.model_options import CONFIG, ForceOptions, NamedModelOptions
from mmvidformer.engine.options import argument, flag, option, read_options
from mmvidformer.engine.part_options import PartOptions, check_needs
from mmvidformer.errors import UserError
from mmvidformer.sinks import SINKS

if TYPE_CHECKING:
    from mmvidformer.apis.recognizer import Recognizer
    from mmvidformer.data.sources import Source
    from mmvidformer.sinks.base import Sink, SinkOptions
    from mmvidformer.sinks.rules import Rule
    from mmvidformer.tasks.annotations import Span

AHEAD = 1.0  # seconds ahead that are shown of a model that anticipates at several times
SAMPLE_WINDOW = 1.0  # seconds of a window of the clip that comes with a model


@dataclass(frozen=True)
class DemoOptions(PartOptions, ForceOptions, NamedModelOptions):
    """A model, its sources, what is asked and written; what has no help is read by hand."""

    title: ClassVar = "answers"
    usage: ClassVar = "mmvidformer demo MODEL [CHECKPOINT] [SOURCE ...] [options]"
    config: str = argument(CONFIG, metavar="MODEL")
    sources: Sequence[Source] = argument(
        "video, folder, camera or address (default: the clip that comes with camera_motion); "
        "before them CHECKPOINT: file, published://NAME, hf://ORG/NAME or URL (default: the "
        "published one of the config)",
        nargs="*",
        metavar="SOURCE",
    )
    targets: Sequence[tuple[type[Sink], Path]] = ()
    true_spans: dict[str, list[Span]] = field(default_factory=dict)
    restart: float | None = option(
        "of recurrent models: forget all that was seen, every so many seconds",
        type=positive_number,
        metavar="SECONDS",
    )
    ahead: float | None = option(
        "of models of what comes next at several times: the one to print and draw, from now "
        "(default: 1); --json has all",
        type=positive_number,
        metavar="SECONDS",
    )
    seconds: float | None = option(
        "how long to read a camera or an address", type=positive_number, metavar="SECONDS"
    )
    queue: int | None = option(
        "most frames of a camera or an address that wait; then the oldest is dropped (default: 30)",
        type=positive,
    )
    patience: int | None = option(
        "seconds for which a live address that went away is tried again (default: 30)",
        type=not_negative,
        metavar="SECONDS",
    )
    topk: int = option("number of classes", 5, type=positive)
    truth: Path | None = option(
        "true segments or moments, for the timeline: a csv file or an export of a tool",
        type=Path,
        metavar="FILE",
    )
    when: Sequence[str] | None = option(
        "of cameras and addresses: 'CLASS > SCORE for SECONDS s', after which --then is done, at "
        "most once a minute for each camera; again for a further rule, with its --then",
        action="append",
        metavar="RULE",
    )
    then: Sequence[str] | None = option(
        "an http address, to which the row is posted as JSON; a command, which reads it; or a name "
        "of clips of the seconds before (.mp4)",
        action="append",
        metavar="ACTION",
    )
    rules: Sequence[Rule] = ()
    show: bool = flag("show in a window; q or Esc ends it")
    root: Path | None = option(
        "folder of the videos of --truth (default: that of the file)", type=Path, metavar="FOLDER"
    )

    @property
    def limits(self) -> dict[str, int]:
        """Those of a ``Capture`` that are given."""
        limits = dict(queue=self.queue, patience=self.patience)
        return {name: limit for name, limit in limits.items() if limit is not None}

    def shown_ahead(self, recognizer: Recognizer) -> float | None:
        """Return the seconds ahead of what is printed and drawn; None: the model names no time."""
        if not recognizer.is_frame_by_frame(self.asked()):
            return None
        times, ahead = recognizer.frame_runner.times_ahead, self.ahead or AHEAD
        return min(times, key=lambda time: abs((time or 0.0) - ahead))

    def printing_targets(self) -> list[tuple[type[Sink], Path]]:
        """Return the outputs with rules, and what is printed: beside a table, numbers alone."""
        from mmvidformer.sinks.lines import Counts, Lines

        has_table = any(not sink.is_picture for sink, _ in self.targets)
        targets = [(Counts if has_table else Lines, Path()), *self.targets]
        if self.rules:
            from mmvidformer.sinks.rules import Rules

            targets.append((Rules, Path()))
        return targets

    def sink_options(self, settings: dict[str, Any]) -> SinkOptions:
        """Return how outputs write rows that depend on ``settings``."""
        from tqdm import tqdm

        from mmvidformer.sinks.base import SinkOptions

        is_piped = Path("-") in dict(self.targets).values()
        return SinkOptions(
            settings=settings,
            top=self.topk,
            force=self.force,
            ahead=self.ahead or AHEAD,
            truth=self.true_spans,
            has_window=self.show,
            rules=self.rules,
            say=partial(tqdm.write, file=sys.stderr if is_piped else None),
        )

    def check_model(self, recognizer: Recognizer) -> None:
        """Raise a ``UserError`` if an option has no effect with the model, or without another."""
        from mmvidformer.apis.tracks import check_asked
        from mmvidformer.sinks.timeline import Timeline

        task = recognizer.task
        check_asked(self, task)
        sinks, by_frame = (
            [sink for sink, _ in self.targets],
            recognizer.is_frame_by_frame(self.asked()),
        )
        is_live = any(source.is_stream for source in self.sources)
        in_parts = is_live or any(sink.needs_parts for sink in sinks)
        has_windows = recognizer.has_windows(self.asked(), in_parts) and not by_frame
        has_times = by_frame and recognizer.frame_runner.times_ahead != [None]
        live, recurrent = "a camera or an address", "a recurrent model without windows"
        needs = {
            "cuts": (has_windows or self.track, "--window or --track"),
            "truth": (Timeline in sinks, "--timeline"),
            "queue": (is_live, live),
            "patience": (is_live, live),
            "when": (is_live, live),
            "restart": (by_frame, recurrent),
            "ahead": (has_times, "a model that anticipates at several times"),
            "seconds": (by_frame or is_live, f"{live}, or {recurrent}"),
        }
        check_needs(vars(self), needs)
        if is_live and self.boxes:
            what = "boxes in a file are of videos in files; a camera or an address needs persons"
            raise UserError(f"{what}, got --boxes {self.boxes}")
        for rule in self.rules:
            rule.check_names(recognizer.names)
            if rule.seconds and task.part == "boxes" and not self.track:
                raise UserError(f"--when {rule.text}: seconds of a person need --track")
        for sink in sinks:
            sink.check_task(task)


def parse_options(argv: Sequence[str] | None, description: str | None) -> DemoOptions:
    """Parse the command line, and check what can be checked before the model is loaded."""
    parser = make_parser(description)
    args = parser.parse_intermixed_args(argv)
    from mmvidformer.apis.windows import WINDOW
    from mmvidformer.data.sources import is_source, list_sources
    from mmvidformer.sinks.film import SHOWN, Film
    from mmvidformer.sinks.windows import WindowsCsv
    from mmvidformer.tasks.annotations import match_spans
    from mmvidformer.tasks.imports import select_rows
    from mmvidformer.video.writer import check_display

    if not args.sources:
        args.sources = [sample_of(args.config, parser)]
        args.window = args.window or SAMPLE_WINDOW
    has_checkpoint = len(args.sources) > 1 and not is_source(args.sources[0])
    args.checkpoint = args.sources.pop(0) if has_checkpoint else None
    words, args.sources = args.sources, list_sources(args.sources)
    files = {name: getattr(args, name) for name in SINKS}
    args.targets = [(SINKS[name].load(), path) for name, path in files.items() if path]
    if args.show and not args.out:
        args.targets.append((Film, SHOWN))
    options = read_options(DemoOptions, args)
    if WindowsCsv in dict(options.targets) and (len(options.targets) > 1 or options.boxes):
        others = [
            f"--{name}" for name in (*SINKS, "boxes") if getattr(args, name) and name != "windows"
        ]
        parser.error(f"--windows keeps rows only, which is not enough for {others[0]}")
    check_targets(args, words)
    if options.show:
        check_display()
    if args.windows and options.window is None:  # or HORST would answer frame by frame
        options = replace(options, window=WINDOW)
    if args.when or args.then:
        options = replace(options, rules=read_rules(args.when or (), args.then or ()))
    options.reading.check(options.boxes or options.truth, "--boxes or --truth")
    if options.truth is None:
        return options
    table = options.reading.open(options.truth, options.root)
    videos = [source.name for source in options.sources]
    true_spans = match_spans(select_rows(table, ("segment", "moment")), videos)
    return replace(options, true_spans=true_spans)


def make_parser(description: str | None) -> ArgumentParser:
    """Make the parser of the command line."""
    parser = engine_options.make_parser(DemoOptions, description)
    files = parser.add_argument_group("files")
    for name, output in SINKS.items():
        flag = f"--{name.replace('_', '-')}"
        files.add_argument(flag, type=Path, help=output.help, metavar="PATH")
    return parser


def read_rules(when: Sequence[str], then: Sequence[str]) -> list[Rule]:
    """Read --when and --then; raise a ``UserError`` if they are no pairs."""
    from mmvidformer.sinks.rules import Rule

    if len(when) != len(then):
        raise UserError(f"each --when needs a --then, got {len(when)} and {len(then)}")
    return [Rule.parse(*rule) for rule in zip(when, then, strict=True)]


def sample_of(config: str, parser: ArgumentParser) -> str:
    """Return the video that comes with the weights of a config, or end with an error."""
    from mmvidformer.config import config_name, load_config
    from mmvidformer.config.shipped import PACKAGE

    video = PACKAGE / "weights" / f"{config_name(config)}.mp4"
    if not Path(config).exists():
        load_config(config)  # names the mistake in a name
    if not video.is_file():
        parser.error("no SOURCE: a video, folder, camera or address")
    return str(video)


def check_targets(args: Namespace, words: Sequence[str]) -> None:
    """Raise an error if a file to write is read, or there already, but a table that goes on."""
    from mmvidformer.sinks.film import SHOWN

    inputs = {**vars(args), "sources": [*words, *(source.name for source in args.sources)]}
    new = []
    for sink, path in args.targets:
        if path == SHOWN:
            continue
        flag = next(f"--{name.replace('_', '-')}" for name in SINKS if getattr(args, name) == path)
        for what, file in sink.targets(path, args.sources):
            of_what = "" if what == str(path) else f" of {what}"
            new.append((f"{flag}{of_what}", file))
    outputs = (*SINKS, "targets")
    check_outputs(inputs, new, *outputs)
    if args.windows:
        inputs["force"] = True
        check_outputs(inputs, [("--windows", args.windows)], *outputs)

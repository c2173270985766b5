"""What a recognizer answers for videos, cameras and addresses, with films and timelines of it."""

import contextlib
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mmvidformer.apis import Capture, Prediction, Recognizer
from mmvidformer.apis.bulk.settings import model_settings
from mmvidformer.apis.persons import PERSONS
from mmvidformer.apis.shots import count_shots
from mmvidformer.apis.windows import WINDOW, times_of
from mmvidformer.data.sources import Source
from mmvidformer.errors import UserError
from mmvidformer.sinks.base import Sink, SinkOptions
from mmvidformer.storage.names import spell
from mmvidformer.tasks.boxes import VideoBoxes
from mmvidformer.video.writer import VideoOutput
from mmvidformer.visualization import annotate
from mmvidformer.visualization.figures import save_figure
from mmvidformer.visualization.horst import look_back
from mmvidformer.visualization.options import check_options
from mmvidformer.visualization.shown_frames import ShownFrames
from mmvidformer.visualization.timeline import draw_timeline

Answers = Iterator[Prediction | dict]
AHEAD = 1.0  # seconds ahead that are shown of a model that anticipates at several times


class SourceAnswers:
    """Predictions for sources, in their order; what is asked for is written and shown on the way.

    A source that cannot be read is a dictionary of ``video`` and ``error``; the others follow.

    Args:
        recognizer: The model.
        args: Arguments of ``mmvidformer demo``.

    Attributes:
        shown_ahead: Seconds ahead of the predictions that are printed and drawn; None if the model
            names no time.
        sink_options: How outputs write.
        sinks: Open outputs; some know what is done already.
        may_interrupt: Whether Ctrl-C is how to end a source.
        is_closed: Whether a window was closed, or a source interrupted: no other one follows.

    Raises:
        UserError: If the model has no use for an argument, or needs another one.
    """

    def __init__(self, recognizer: Recognizer, args: Namespace) -> None:
        self.recognizer, self.args = recognizer, args
        task = recognizer.task
        if args.windows and not task.has_windows:
            raise UserError(f"a model of {task.part} has no windows; use --json or --csv")
        options = ("window", "stride", "skip_static")
        self.options = {name: getattr(args, name) for name in options}
        if not task.needs_boxes:
            recognizer.check_windows(self.options)
        if args.windows and args.window is None:
            self.options["window"] = WINDOW  # or a recurrent model would answer frame by frame
        has_windows = any(value is not None for value in self.options.values())
        self.least_score = recognizer.least_score(args.min_score)
        self.options |= dict(min_score=args.min_score, cuts=args.cuts)
        self.has_parts = bool(args.timeline or args.csv or args.subtitles or has_windows)
        self.has_parts |= not task.has_windows
        self.frame_by_frame = recognizer.is_recurrent and not has_windows
        self.may_interrupt = self.frame_by_frame or any(x.is_stream for x in args.sources)
        check_options(args, recognizer, self.frame_by_frame, self.may_interrupt)
        self.ahead = AHEAD if args.ahead is None else args.ahead
        self.shown_ahead: float | None = None
        if self.frame_by_frame:
            times = recognizer.frame_runner.times_ahead
            self.shown_ahead = min(times, key=lambda time: abs((time or 0.0) - self.ahead))
        self.boxes = None
        if args.boxes and str(args.boxes) != PERSONS:
            self.boxes = VideoBoxes(args.boxes, [source.name for source in args.sources])
        self.sink_options = SinkOptions(self._settings(), args.topk, args.force)
        self.sinks: list[Sink] = []
        self.is_closed = False

    def _settings(self) -> dict[str, Any]:
        """Return what a row of a window depends on."""
        args, names = self.args, self.recognizer.names
        model = model_settings(self.recognizer.cfg, args.checkpoint)
        return dict(**model, classes=names, int8=args.int8, static=args.static, **self.options)

    def __iter__(self) -> Answers:
        sources = self.args.sources
        is_alone = len(sources) == 1
        for source in tqdm(sources, unit="video", disable=True if is_alone else None):
            if self.frame_by_frame:
                answers = self._answer_frames(source)
            elif source.is_stream:
                answers = self._answer_stream(source)
            else:
                answers = self._answer_file(source)
            try:
                yield from answers
            except (OSError, ValueError) as error:  # decord reads some files that PyAV does not
                if is_alone and (source.is_stream or self.frame_by_frame):
                    raise
                yield {"video": spell(source.title), "error": spell(str(error))}
            if self.is_closed:
                return

    def _answer_file(self, source: Source) -> Answers:
        video, args = Path(source.name), self.args
        task = self.recognizer.task
        count = None
        if task.needs_boxes:
            predictions = self._answer_boxes(video)
        elif self.has_parts:
            count, predictions = self._answer_parts(video)
        else:
            predictions = iter([self.recognizer(video)])
        if self.has_parts and count is None and not self._has_table():
            predictions = list(predictions)  # which are printed below their number
            count = len(predictions)
        if self.has_parts and count is not None:
            self._say(f"{video}: {count} {task.part}")
        is_drawn = bool(args.timeline or args.out or args.show)
        total, kept = 0, list[Prediction]()
        for prediction in predictions:
            total += 1
            kept += [prediction] * is_drawn
            yield prediction
        if self.has_parts and count is None:
            self._say(f"{video}: {total} {task.part}")
        if not total and count is None:
            least = "" if task.needs_boxes else f" with a score of at least {self.least_score:g}"
            self._say(f"{video}: no {task.part}{least}")
            if not task.needs_boxes:
                return
        is_whole = not (self.has_parts or task.needs_boxes)
        if is_whole and len(args.sources) == 1 and (shots := count_shots(video)) > 1:
            text = f"{video}: one answer for {shots} shots; with --window none crosses a cut"
            tqdm.write(text, file=sys.stderr)
        self._write_timeline(source, kept)
        if args.out or args.show:
            target = source.target(args.out, ".mp4")
            options = target, self._window_title(source), args.topk
            self.is_closed = not annotate.annotate_video(video, kept, *options)
            if target and not self.is_closed:
                self._say(f"written: {target}")

    def _answer_boxes(self, video: Path) -> Iterator[Prediction]:
        """Answer for persons in a file, or for its boxes in a csv file."""
        if self.boxes is None:
            args = self.args
            yield from self.recognizer.persons(video, args.rate, args.track, args.cuts)
            return
        for second, boxes in self.boxes.of(video):
            yield from self.recognizer.boxes(video, second, boxes)

    def _answer_parts(self, video: Path) -> tuple[int | None, Iterator[Prediction]]:
        """Answer for windows, steps or segments of a file; returns their number if it is known."""
        total, done = None, 0
        if self.recognizer.task.has_windows:
            opened = self.recognizer.pipeline.open(video)
            sizes = self.options["window"], self.args.stride, self.args.cuts
            windows = self.recognizer.windows(opened, *sizes)
            total, times = len(windows), times_of(opened)
            spans = [times.span(*window.span) for window in windows]
            done = max((sink.count(str(video), spans) for sink in self.sinks), default=0)
        predictions = self.recognizer.timeline(video, **self.options, first=done)
        bar = dict(desc=video.name, total=total, initial=done, unit="window", leave=False)
        return total, iter(tqdm(predictions, **bar, disable=None))

    def _answer_frames(self, source: Source) -> Answers:
        """Answer after each frame of a file, a camera or an address, and draw it at once.

        Memory does not grow, but for the answers of a timeline.
        """
        args, runner = self.args, self.recognizer.frame_runner
        target, kept = source.target(args.out, ".mp4"), list[Prediction]()
        count, begin = 0, time.perf_counter()
        with contextlib.ExitStack() as stack:
            capture = stack.enter_context(self._capture(source))
            rate, title = runner.pipeline.rate(capture.fps), self._window_title(source)
            sound = None if source.is_stream else source.name
            output = stack.enter_context(VideoOutput(target, rate, title, sound))
            bar = tqdm(total=capture.total, unit="frame", leave=False, disable=None)
            stack.enter_context(bar)
            try:
                for frame, extras in self._frames(capture):
                    if args.seconds is not None and frame.seconds >= args.seconds:
                        break
                    count += 1
                    bar.update(frame.number + 1 - bar.n)
                    if capture.is_live:
                        delay = 1000 * capture.note_delay(frame.seconds)
                        bar.set_postfix_str(f"{delay:.0f} ms late, {capture.dropped} dropped")
                    yield from frame.predictions
                    if args.timeline:
                        kept += [x for x in frame.predictions if x.ahead == self.shown_ahead]
                    if args.show or args.out:
                        heading = f"{frame.seconds:.2f} s, frame {frame.number}"
                        bars = annotate.stream_bars(frame, args.topk, self.ahead)
                        image = annotate.annotate_frame(frame.picture, heading, bars, **extras)
                        if not output.add(image, None if capture.is_live else frame.seconds):
                            self.is_closed = True
                            break
            except (KeyboardInterrupt, GeneratorExit):  # the film is completed
                self.is_closed = True
        duration = 1000 * (time.perf_counter() - begin) / max(count, 1)
        written = f", {target}" if target else ""
        steps = f"{count} steps, {duration:.1f} ms each"
        tqdm.write(f"{capture.name}: {steps}{written}", file=sys.stderr)
        if capture.is_live:
            tqdm.write(capture.report(), file=sys.stderr)
        if kept:
            self._write_timeline(source, kept)

    def _frames(self, capture: Capture) -> Iterator[tuple]:
        """Yield frames with their predictions, and what else ``annotate_frame`` draws."""
        if not self.args.overlay:
            for frame in self.recognizer.frame_by_frame(capture, self.args.restart):
                yield frame, {}
            return
        for step in look_back(self.recognizer, capture, self.args.layer, self.args.restart):
            yield step.frame, step.annotations()

    def _answer_stream(self, source: Source) -> Answers:
        """Answer for windows of a camera or an address until it ends, q is pressed or time is over.

        A connection that is lost is a dictionary.
        """
        target, title = source.target(self.args.out, ".mp4"), self._window_title(source)
        with (
            self._capture(source) as capture,
            VideoOutput(target, capture.fps, title) as output,
        ):
            shown = ShownFrames(capture, output, self.args.topk, self.args.seconds)
            try:
                for prediction in self.recognizer.stream(shown, **self.options):
                    shown.latest = prediction
                    if capture.is_live:
                        capture.note_delay(shown.seconds)
                    yield prediction
            except ConnectionError as error:
                yield {"video": capture.name, "error": str(error)}
            except (KeyboardInterrupt, GeneratorExit):  # the film is completed
                self.is_closed = True
            finally:
                self.is_closed |= shown.is_closed
                if shown.latest is None:
                    tqdm.write(f"{shown.name}: no answer in {shown.seconds:.2f} s", file=sys.stderr)
                if capture.is_live:
                    tqdm.write(capture.report(), file=sys.stderr)

    def _write_timeline(self, source: Source, predictions: Sequence[Prediction]) -> None:
        target = source.target(self.args.timeline, "_timeline.png")
        if target and predictions:
            video = Path(source.name)
            truth = [span[:3] for span in self.args.true_spans.get(source.name, ())]
            duration = 0.0
            if self.recognizer.task.finds_parts:
                opened = self.recognizer.pipeline.open(video)
                _, duration = times_of(opened).span(0, opened["total_frames"] - 1)
            figure = draw_timeline(predictions, video.name, truth=truth, duration=duration)
            save_figure(figure, target)
            self._say(f"written: {target}")

    def _window_title(self, source: Source) -> str | None:
        return f"{source.title}: q ends" if self.args.show else None

    def print_prediction(self, prediction: Prediction) -> None:
        """Print a line; of the parts of files only if no table takes them."""
        source, text = prediction.source, prediction.text(self.args.topk)
        if prediction.seconds is None:
            self._say(f"{source}: {text}")
            return
        part = "{:.2f}-{:.2f} s".format(*prediction.seconds)
        if prediction.ahead is not None:
            part += f", {prediction.ahead:.2f} s ahead"
        if not Path(source).is_file():
            self._say(f"{source} {part}: {text}")
        elif not self._has_table():
            self._say(f"  {part}: {text}")

    def _has_table(self) -> bool:
        return bool(self.sinks)

    def _capture(self, source: Source) -> Capture:
        limits = dict(queue=self.args.queue, patience=self.args.patience)
        return Capture(source.name, **{name: x for name, x in limits.items() if x is not None})

    def _say(self, text: str) -> None:
        """Print a line, to the standard error if JSON lines go to the standard output."""
        tqdm.write(spell(text), file=sys.stderr if str(self.args.json) == "-" else None)

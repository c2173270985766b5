"""What a recognizer answers for videos, cameras and addresses, sent to outputs."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mmvidformer.apis.persons import PERSONS, choose_rate
from mmvidformer.apis.recognizer import Recognizer
from mmvidformer.apis.shots import count_shots
from mmvidformer.apis.stream import StreamFrame
from mmvidformer.apis.windows import times_of
from mmvidformer.cli.part_options import PartOptions
from mmvidformer.data.sources import Source
from mmvidformer.engine.arguments import positive, positive_number
from mmvidformer.engine.options import option
from mmvidformer.errors import UserError
from mmvidformer.sinks.base import Begun
from mmvidformer.sinks.film import WindowClosed
from mmvidformer.sinks.group import Sinks
from mmvidformer.storage.names import spell
from mmvidformer.tasks.boxes import VideoBoxes
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.video.capture import Capture, Frame, FrameSource

AHEAD = 1.0  # seconds ahead that are shown of a model that anticipates at several times
ENDS = (KeyboardInterrupt, WindowClosed)  # how somebody ends a camera
# Yields the frames of a recurrent model, and what else is drawn of each.
Look = Callable[[Capture], Iterator[tuple[StreamFrame, dict]]]


@dataclass(frozen=True)
class AnswerOptions(PartOptions):
    """What is asked of a model for videos, cameras and addresses."""

    skip_static: float | None = option(
        "reuse the last prediction while frames differ by less than T of 255",
        type=positive_number,
        metavar="T",
    )
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
        metavar="N",
    )
    patience: float | None = option(
        "seconds for which a live address that went away is tried again (default: 30)",
        type=float,
        metavar="SECONDS",
    )

    @property
    def has_windows(self) -> bool:
        """Whether windows are asked for."""
        return any(size is not None for size in (self.window, self.stride, self.skip_static))


class Answering:
    """Answers for sources, and sends all to outputs.

    Args:
        recognizer: The model.
        options: What is asked of it.
        sources: All sources, for their boxes.
        look: Frames of a recurrent model with what it attends to; default: without.

    Attributes:
        frame_by_frame: Whether the model answers after each frame.
        shown_ahead: Seconds ahead of the predictions that are printed and drawn; None if the model
            names no time.
        is_closed: Whether a window was closed, or a source interrupted: no other one follows.
        part_options: Arguments of ``Recognizer.timeline``, on which its answers depend.

    Raises:
        UserError: If the model has no use for an option, or needs another one.
    """

    def __init__(
        self,
        recognizer: Recognizer,
        options: AnswerOptions,
        sources: Sequence[Source],
        look: Look | None = None,
    ) -> None:
        self.recognizer, self.options, self.is_closed = recognizer, options, False
        self.frame_by_frame = recognizer.is_recurrent and not options.has_windows
        self._check(look is not None, any(source.is_stream for source in sources))
        names = ("window", "stride", "skip_static", "min_score", "cuts")
        self.part_options = {name: getattr(options, name) for name in names}
        self._look, self._is_alone = look or self._plain, len(sources) == 1
        self.shown_ahead: float | None = None
        if self.frame_by_frame:
            times, ahead = recognizer.frame_runner.times_ahead, options.ahead or AHEAD
            self.shown_ahead = min(times, key=lambda time: abs((time or 0.0) - ahead))
        self.boxes = None
        if options.boxes and str(options.boxes) != PERSONS:
            self.boxes = VideoBoxes(options.boxes, [source.name for source in sources])

    def _check(self, has_look: bool, is_live: bool) -> None:
        recognizer, options = self.recognizer, self.options
        task = recognizer.task
        if task.needs_boxes and not options.boxes:
            what = "a csv file in AVA's format, or persons"
            raise UserError(f"a model of boxes needs --boxes: {what}")
        if not task.needs_boxes:
            names = ("window", "stride", "skip_static")
            recognizer.check_windows({name: getattr(options, name) for name in names})
        recognizer.least_score(options.min_score)
        if is_live and options.boxes and str(options.boxes) != PERSONS:
            what = "boxes in a file are of videos in files; a camera or an address needs persons"
            raise UserError(f"{what}, got --boxes {options.boxes}")
        finds_persons = task.needs_boxes and str(options.boxes) == PERSONS
        persons = finds_persons, "models of boxes, with --boxes persons"
        has_windows = task.has_windows and not self.frame_by_frame
        names_times = self.frame_by_frame and recognizer.frame_runner.times_ahead != [None]
        recurrent = "recurrent models without windows"
        users = {
            "boxes": (task.needs_boxes, f"models of boxes, not of {task.part}"),
            "rate": persons,
            "track": persons,
            "cuts": (has_windows or options.track, "windows or --track"),
            "restart": (self.frame_by_frame, recurrent),
            "overlay": (self.frame_by_frame, recurrent),
            "ahead": (names_times, "models that anticipate at several times"),
            "seconds": (self.frame_by_frame or is_live, f"cameras, addresses, and {recurrent}"),
        }
        asked = {**vars(options), "overlay": has_look}
        for name, (is_used, user) in users.items():
            if asked[name] not in (None, False) and not is_used:
                raise UserError(f"--{name} is for {user}")
        if finds_persons:
            choose_rate(options.rate, options.track)

    def answer(self, source: Source, sinks: Sinks) -> None:
        """Answer for a source; what is wrong with it is sent to the outputs as ``fail``.

        Errors of the outputs are raised.
        """
        try:
            if self.frame_by_frame:
                self._answer_frames(source, sinks)
            elif source.is_stream:
                self._answer_stream(source, sinks)
            else:
                self._answer_file(source, sinks)
            sinks.end()
        except WindowClosed:
            self.is_closed = True
        except (OSError, UserError) as error:  # decord reads some files that PyAV does not
            if sinks.is_broken:
                raise
            sinks.fail(spell(source.title), spell(str(error)))

    def _answer_file(self, source: Source, sinks: Sinks) -> None:
        video, task, total, done = Path(source.name), self.recognizer.task, None, 0
        if task.needs_boxes:
            part, predictions = task.part, self._boxes(video)
        elif not task.has_windows or sinks.needs_parts or self.options.has_windows:
            part = task.part
            if task.has_windows:
                total, done = self._count_windows(video, sinks)
            options = self.part_options
            predictions = self.recognizer.timeline(video, **options, first=done)
        else:
            part, predictions = "", iter([self.recognizer(video)])
        least = self.recognizer.least_score(self.options.min_score)
        none = f"no {part}" if task.needs_boxes else f"no {part} with a score of at least {least:g}"
        sinks.begin(Begun(source, part, total, none=none))
        bar = dict(desc=video.name, total=total, initial=done, unit="window", leave=False)
        for prediction in tqdm(predictions, **bar, disable=None if part else True):
            sinks.append(prediction)
        if not part and self._is_alone and (shots := count_shots(video)) > 1:
            _note(f"{video}: one answer for {shots} shots; with --window none crosses a cut")

    def _count_windows(self, video: Path, sinks: Sinks) -> tuple[int, int]:
        """Return how many windows a video has, and how many of them are done."""
        opened = self.recognizer.pipeline.open(video)
        sizes = self.options.window, self.options.stride, self.options.cuts
        windows, times = self.recognizer.windows(opened, *sizes), times_of(opened)
        return len(windows), sinks.count(
            str(video), [times.span(*window.span) for window in windows]
        )

    def _boxes(self, video: Path) -> Iterator[Prediction]:
        """Answer for persons in a file, or for its boxes in a csv file."""
        if self.boxes is None:
            options = self.options
            yield from self.recognizer.persons(video, options.rate, options.track, options.cuts)
            return
        for second, boxes in self.boxes.of(video):
            yield from self.recognizer.boxes(video, second, boxes)

    def _answer_frames(self, source: Source, sinks: Sinks) -> None:
        """Answer after each frame of a file, a camera or an address, with constant memory."""
        count, begin = 0, time.perf_counter()
        with self._capture(source) as capture:
            rate = self.recognizer.frame_runner.pipeline.rate(capture.fps)
            sinks.begin(Begun(source, "steps", fps=rate))
            bar = tqdm(total=capture.total, unit="frame", leave=False, disable=None)
            try:
                for frame, drawn in self._look(capture):
                    if frame.seconds >= (self.options.seconds or float("inf")):
                        break
                    count += 1
                    bar.update(frame.number + 1 - bar.n)
                    if capture.is_live:
                        delay = 1000 * capture.note_delay(frame.seconds)
                        bar.set_postfix_str(f"{delay:.0f} ms late, {capture.dropped} dropped")
                    for prediction in frame.predictions:
                        sinks.append(prediction)
                    sinks.see(frame.number, frame.seconds, lambda x=frame: x.picture, **drawn)
            except ENDS:
                self.is_closed = True
            finally:
                bar.close()
        duration = 1000 * (time.perf_counter() - begin) / max(count, 1)
        _note(f"{capture.name}: {count} steps, {duration:.1f} ms each")
        if capture.is_live:
            _note(capture.report())

    def _plain(self, capture: Capture) -> Iterator[tuple[StreamFrame, dict]]:
        for frame in self.recognizer.frame_by_frame(capture, self.options.restart):
            yield frame, {}

    def _answer_stream(self, source: Source, sinks: Sinks) -> None:
        """Answer for windows of a camera or an address until it ends, or somebody ends it."""
        count = 0
        with self._capture(source) as capture:
            sinks.begin(Begun(source, self.recognizer.task.part, fps=capture.fps))
            frames = _SeenFrames(capture, sinks, self.options.seconds)
            try:
                for prediction in self._stream(frames):
                    count += 1
                    if capture.is_live:
                        capture.note_delay(frames.seconds)
                    sinks.append(prediction)
            except ENDS:
                self.is_closed = True
            finally:
                if not count:
                    _note(f"{capture.name}: no answer in {frames.seconds:.2f} s")
                if capture.is_live:
                    _note(capture.report())

    def _stream(self, frames: FrameSource) -> Iterator[Prediction]:
        options = self.options
        if not self.recognizer.task.needs_boxes:
            return self.recognizer.stream(frames, **self.part_options)
        persons = dict(rate=options.rate, track=options.track, cuts=options.cuts)
        return self.recognizer.stream_persons(frames, **persons)

    def _capture(self, source: Source) -> Capture:
        limits = dict(queue=self.options.queue, patience=self.options.patience)
        return Capture(source.name, **{name: x for name, x in limits.items() if x is not None})


class _SeenFrames(FrameSource):
    """Frames of a camera or an address, which outputs see before the model takes them."""

    def __init__(self, capture: Capture, sinks: Sinks, end: float | None) -> None:
        self._capture, self._sinks, self._end = capture, sinks, end
        self.name, self.fps = capture.name, capture.fps
        self.is_live, self.cuts = capture.is_live, capture.cuts
        self.seconds = 0.0  # of the last frame

    def frames(self, *steps: Any, **named_steps: Any) -> Iterator[Frame]:
        """Yield the frames of ``Capture.frames`` until time is over."""
        for number, seconds, pixels in self._capture.frames(*steps, **named_steps):
            self.seconds = seconds
            if seconds >= (self._end or float("inf")):
                return
            self._sinks.see(number, seconds, lambda x=pixels: x)
            yield number, seconds, pixels


def _note(text: str) -> None:
    tqdm.write(text, file=sys.stderr)

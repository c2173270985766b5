"""What a recognizer answers for videos, cameras and addresses, sent to outputs."""

import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mmvidformer.apis.recognizer import Recognizer
from mmvidformer.apis.shots import count_shots
from mmvidformer.apis.together import Send, Threads
from mmvidformer.apis.tracks import read_boxes
from mmvidformer.apis.windows import times_of
from mmvidformer.cli.demo_options import DemoOptions
from mmvidformer.data.sources import Source
from mmvidformer.errors import UserError
from mmvidformer.sinks.base import Begun, Sink
from mmvidformer.sinks.film import WindowClosed
from mmvidformer.sinks.group import Sinks
from mmvidformer.storage.names import spell
from mmvidformer.video.capture import Capture, Frame, FrameSource
from mmvidformer.video.errors import BadVideo

ENDS = (KeyboardInterrupt, WindowClosed)  # how somebody ends cameras
LAST = 5.0  # seconds for the last answers then


class Answering:
    """Answers for sources, and sends all to outputs.

    Files are answered in turn, then cameras and addresses at once: each is read in a thread, and
    their windows go through the model together.

    Args:
        recognizer: The model.
        options: What is asked of it.
        sinks: The outputs.
    """

    def __init__(self, recognizer: Recognizer, options: DemoOptions, sinks: Sinks) -> None:
        self.recognizer, self.options, self.sinks = recognizer, options, sinks
        self.boxes = read_boxes(options, [source.name for source in options.sources])
        self._open: dict[Source, Sink] = {}  # the outputs of sources that have not ended
        self._captures: list[Capture] = []

    def answer_all(self) -> None:
        """Answer for all sources; what is wrong with one is sent to the outputs as ``fail``.

        Errors of the outputs are raised. A window that is closed, and ctrl-C while frames come in,
        end all.
        """
        sources = self.options.sources
        by_frame = self.recognizer.is_frame_by_frame(self.options.asked())
        files = [source for source in sources if not source.is_stream]
        live = [source for source in sources if source.is_stream]
        try:
            for source in tqdm(files, unit="video", disable=None if sources[1:] else True):
                if by_frame:
                    self._answer_streams([source])
                else:
                    for method, *values in self._answer_file(source):
                        self._take(source, method, *values)
            if live:
                self._answer_streams(live)
        except WindowClosed:
            return

    def _take(self, source: Source, method: str, *values: Any) -> None:
        """Call a method of the outputs of a source."""
        if method == "begin":
            self._open[source] = self.sinks.begin(*values)
            return
        outputs = self._open.get(source, self.sinks)
        if method in ("end", "fail"):
            self._open.pop(source, None)
        try:
            getattr(outputs, method)(*values)
        except BadVideo as error:  # decord reads some files that PyAV, which draws, does not
            outputs.fail(*_describe(source, error))

    def _answer_file(self, source: Source) -> Iterator[tuple]:
        """Yield what ``_take`` takes."""
        recognizer, sinks, video = self.recognizer, self.sinks, Path(source.name)
        try:
            asked = self.options.asked(self.boxes and self.boxes.of(video))
            in_parts, total, done = sinks.needs_parts, None, 0
            if recognizer.has_windows(asked, in_parts):
                total, done = self._count_windows(video, asked)
            predictions = recognizer.answers(video, in_parts=in_parts, first=done, **asked)
            none = recognizer.task.none_found(asked)
            yield "begin", Begun(source, recognizer.task.part, total, none=none)
            bar = dict(desc=video.name, total=total, initial=done, unit="window", leave=False)
            is_whole = False
            for prediction in tqdm(predictions, **bar, disable=None):
                yield "append", prediction
                is_whole = prediction.seconds is None
            if is_whole and not self.options.sources[1:] and (shots := count_shots(video)) > 1:
                note(f"{video}: one answer for {shots} shots; with --window none crosses a cut")
        except UserError as error:
            yield "fail", *_describe(source, error)
        else:
            yield ("end",)

    def _count_windows(self, video: Path, asked: dict[str, Any]) -> tuple[int, int]:
        """Return how many windows a video has, and how many of them are done."""
        opened = self.recognizer.pipeline.open(video)
        windows, times = self.recognizer.windows(opened, **asked), times_of(opened)
        spans = [times.span(*window.span) for window in windows]
        return len(windows), self.sinks.count(str(video), spans)

    def _answer_streams(self, sources: list[Source]) -> None:
        """Answer for sources at once, while frames come in, until they end, or somebody ends them.

        Raises:
            WindowClosed: If somebody ended them.
        """
        functions = [partial(self._answer_stream, source) for source in sources]
        captures = self._captures = []
        bar = tqdm(unit="frame", leave=False, disable=None)
        with self.recognizer.gathered(), Threads(functions) as sent, bar:
            try:
                self._take_all(sent, bar)
            except ENDS:
                sent.end_within(LAST)
                for capture in captures:
                    capture.close()
                self._take_all(sent, bar)
                for source in [*self._open]:  # that hang
                    self._take(source, "end")
                raise WindowClosed from None
            finally:
                for capture in captures:
                    capture.close()

    def _take_all(self, sent: Threads, bar: tqdm) -> None:
        for source, method, *values in sent:
            self._take(source, method, *values)
            if method == "see":
                bar.update()
                bar.set_postfix(dropped=sum(x.dropped for x in self._captures), refresh=False)

    def _answer_stream(self, source: Source, send: Send) -> None:
        """Send what ``_take`` takes; runs in a thread."""
        try:
            with Capture(source.name, **self.options.limits) as capture:
                self._captures.append(capture)
                self._answer_frames(source, capture, partial(send, source))
        except UserError as error:
            send(source, "fail", *_describe(source, error))
        else:
            send(source, "end")

    def _answer_frames(self, source: Source, capture: Capture, send: Send) -> None:
        recognizer, options = self.recognizer, self.options
        asked = options.asked(options.boxes)
        by_frame = recognizer.is_frame_by_frame(asked)
        rate = recognizer.frame_runner.pipeline.rate(capture.fps) if by_frame else capture.fps
        send("begin", Begun(source, recognizer.task.part, fps=rate))
        late = recognizer.frames_late(capture.fps, asked)
        frames = _SeenFrames(capture, partial(send, "see"), options.seconds or inf, late)
        count, start = 0, time.perf_counter()
        try:
            with closing(frames):
                predictions = recognizer.stream(frames, **asked, restart=options.restart)
                for count, prediction in enumerate(predictions, 1):  # noqa: B007
                    if capture.is_live:
                        capture.note_delay(frames.seconds)
                    send("append", prediction)
        finally:
            if capture.is_live:
                note(f"{capture.name}: {capture.report()}")
        if by_frame:
            duration = 1000 * (time.perf_counter() - start) / max(frames.count, 1)
            note(f"{capture.name}: {frames.count} steps, {duration:.1f} ms each")
        elif not count:
            note(f"{capture.name}: no answer in {frames.seconds:.2f} s")


class _SeenFrames(FrameSource):
    """Frames of a ``Capture``, which outputs see once they are answered.

    Args:
        capture: Gives them.
        show: Takes them (``Sink.see``).
        end: Seconds after which there are no more.
        late: Number of frames by which outputs see them later than the model.

    Attributes:
        count: Number of frames that the model took.
        seconds: Time of the last one.
    """

    def __init__(self, capture: Capture, show: Send, end: float, late: int) -> None:
        self._capture, self._show, self._end, self._late = capture, show, end, late
        self._waiting: deque[Frame] = deque()
        self.name, self.fps = capture.name, capture.fps
        self.is_live, self.cuts = capture.is_live, capture.cuts
        self.count, self.seconds = 0, 0.0

    def frames(self, *steps: Any, **named_steps: Any) -> Iterator[Frame]:
        """Yield the frames of ``Capture.frames`` until time is over."""
        for frame in self._capture.frames(*steps, **named_steps):
            if frame[1] >= self._end:
                return
            _, self.seconds, _ = frame
            self.count += 1
            self._waiting.append(frame)
            while len(self._waiting) > self._late:
                self._show(*self._waiting.popleft())
            yield frame

    def close(self) -> None:
        """Show the frames that waited for answers."""
        while self._waiting:
            self._show(*self._waiting.popleft())


def _describe(source: Source, error: UserError) -> tuple[str, str]:
    """Return what ``Sink.fail`` takes."""
    return spell(source.title), spell(str(error))


def note(text: str) -> None:
    """Print a line beside the answers."""
    tqdm.write(text, file=sys.stderr)

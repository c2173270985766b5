"""What a recognizer answers for videos, cameras and addresses, sent to outputs."""

import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from math import inf
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mmvidformer.apis.recognizer import Recognizer
from mmvidformer.apis.shots import count_shots
from mmvidformer.apis.tracks import read_boxes
from mmvidformer.apis.windows import times_of
from mmvidformer.cli.demo_options import DemoOptions
from mmvidformer.data.sources import Source
from mmvidformer.errors import UserError
from mmvidformer.sinks.base import Begun
from mmvidformer.sinks.film import WindowClosed
from mmvidformer.sinks.group import Sinks
from mmvidformer.storage.names import spell
from mmvidformer.video.capture import Capture, Frame, FrameSource

ENDS = (KeyboardInterrupt, WindowClosed)  # how somebody ends a camera


class Answering:
    """Answers for the sources of a command, and sends all to outputs.

    Args:
        recognizer: The model.
        options: What is asked of it.
        sinks: The outputs.
    """

    def __init__(self, recognizer: Recognizer, options: DemoOptions, sinks: Sinks) -> None:
        self.recognizer, self.options, self.sinks = recognizer, options, sinks
        self._is_closed = False  # a window, or a source was interrupted: no other one follows
        names = [source.name for source in options.sources]
        self.boxes = read_boxes(options, names)

    def answer_all(self) -> None:
        """Answer for each source; what is wrong with one is sent to the outputs as ``fail``.

        Errors of the outputs are raised.
        """
        sources = self.options.sources
        for source in tqdm(sources, unit="video", disable=None if sources[1:] else True):
            self._answer(source)
            if self._is_closed:
                break

    def _answer(self, source: Source) -> None:
        try:
            if source.is_stream or self.recognizer.is_frame_by_frame(self.options.asked()):
                self._answer_stream(source)
            else:
                self._answer_file(source)
            self.sinks.end()
        except WindowClosed:
            self._is_closed = True
        except UserError as error:  # decord reads some files that PyAV does not
            if self.sinks.is_broken:
                raise
            self.sinks.fail(spell(source.title), spell(str(error)))

    def _answer_file(self, source: Source) -> None:
        recognizer, sinks, video = self.recognizer, self.sinks, Path(source.name)
        asked = self.options.asked(self.boxes and self.boxes.of(video))
        in_parts, total, done = sinks.needs_parts, None, 0
        if recognizer.has_windows(asked, in_parts):
            total, done = self._count_windows(video, asked)
        predictions = recognizer.answers(video, in_parts=in_parts, first=done, **asked)
        sinks.begin(
            Begun(source, recognizer.task.part, total, none=recognizer.task.none_found(asked))
        )
        bar = dict(desc=video.name, total=total, initial=done, unit="window", leave=False)
        is_whole = False
        for prediction in tqdm(predictions, **bar, disable=None):
            sinks.append(prediction)
            is_whole = prediction.seconds is None
        if is_whole and not self.options.sources[1:] and (shots := count_shots(video)) > 1:
            note(f"{video}: one answer for {shots} shots; with --window none crosses a cut")

    def _count_windows(self, video: Path, asked: dict[str, Any]) -> tuple[int, int]:
        """Return how many windows a video has, and how many of them are done."""
        opened = self.recognizer.pipeline.open(video)
        windows, times = self.recognizer.windows(opened, **asked), times_of(opened)
        spans = [times.span(*window.span) for window in windows]
        return len(windows), self.sinks.count(str(video), spans)

    def _answer_stream(self, source: Source) -> None:
        """Answer while frames come in, until they end, or somebody ends them."""
        recognizer, options = self.recognizer, self.options
        asked = options.asked(options.boxes)
        by_frame = recognizer.is_frame_by_frame(asked)
        count, begin = 0, time.perf_counter()
        with self._capture(source) as capture:
            rate = recognizer.frame_runner.pipeline.rate(capture.fps) if by_frame else capture.fps
            self.sinks.begin(Begun(source, recognizer.task.part, fps=rate))
            late = recognizer.frames_late(capture.fps, asked)
            frames = _SeenFrames(capture, self.sinks, options.seconds or inf, late)
            predictions = recognizer.stream(frames, **asked, restart=options.restart)
            try:
                with closing(frames):
                    for count, prediction in enumerate(predictions, 1):  # noqa: B007
                        if capture.is_live:
                            capture.note_delay(frames.seconds)
                        self.sinks.append(prediction)
            except ENDS:
                self._is_closed = True
        duration = 1000 * (time.perf_counter() - begin) / max(frames.count, 1)
        if by_frame:
            note(f"{capture.name}: {frames.count} steps, {duration:.1f} ms each")
        elif not count:
            note(f"{capture.name}: no answer in {frames.seconds:.2f} s")

    @contextmanager
    def _capture(self, source: Source) -> Iterator[Capture]:
        limits = dict(queue=self.options.queue, patience=self.options.patience)
        limits = {name: limit for name, limit in limits.items() if limit is not None}
        with Capture(source.name, **limits) as capture:
            try:
                yield capture
            finally:
                if capture.is_live:
                    note(capture.report())


class _SeenFrames(FrameSource):
    """Frames of a ``Capture``, which outputs see once they are answered.

    Args:
        capture: Gives them.
        sinks: The outputs.
        end: Seconds after which there are no more.
        late: Number of frames by which outputs see them later than the model.

    Attributes:
        count: Number of frames that the model took.
        seconds: Time of the last one.
    """

    def __init__(self, capture: Capture, sinks: Sinks, end: float, late: int) -> None:
        self._capture, self._sinks, self._end, self._late = capture, sinks, end, late
        self._waiting: deque[Frame] = deque()
        self.name, self.fps = capture.name, capture.fps
        self.is_live, self.cuts = capture.is_live, capture.cuts
        self.count, self.seconds = 0, 0.0

    def frames(self, *steps: Any, **named_steps: Any) -> Iterator[Frame]:
        """Yield the frames of ``Capture.frames`` until time is over."""
        frames = self._capture.frames(*steps, **named_steps)
        for frame in tqdm(frames, unit="frame", leave=False, disable=None):
            if frame[1] >= self._end:
                return
            _, self.seconds, _ = frame
            self.count += 1
            self._waiting.append(frame)
            while len(self._waiting) > self._late:
                self._show()
            yield frame

    def close(self) -> None:
        """Show the frames that waited for answers."""
        while self._waiting:
            self._show()

    def _show(self) -> None:
        try:
            self._sinks.see(*self._waiting.popleft())
        except WindowClosed:
            self._waiting.clear()
            raise


def note(text: str) -> None:
    """Print a line beside the answers."""
    tqdm.write(text, file=sys.stderr)

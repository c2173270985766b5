"""What a recognizer answers for videos, cameras and addresses, sent to outputs."""

import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from math import ceil, inf
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mmvidformer.apis.persons import choose_rate
from mmvidformer.apis.recognizer import Recognizer
from mmvidformer.apis.shots import count_shots
from mmvidformer.apis.windows import times_of
from mmvidformer.cli.demo_options import DemoOptions
from mmvidformer.data.sources import Source
from mmvidformer.errors import UserError
from mmvidformer.sinks.base import Begun
from mmvidformer.sinks.film import WindowClosed
from mmvidformer.sinks.group import Sinks
from mmvidformer.storage.names import spell
from mmvidformer.video.capture import Capture, Frame, FrameSource
from mmvidformer.video.times import FrameTimes

ENDS = (KeyboardInterrupt, WindowClosed)  # how somebody ends a camera


class Answering:
    """Answers for sources, and sends all to outputs.

    Args:
        recognizer: The model.
        options: What is asked of it.
        sinks: The outputs.

    Attributes:
        is_closed: Whether a window was closed, or a source interrupted: no other one follows.
    """

    def __init__(self, recognizer: Recognizer, options: DemoOptions, sinks: Sinks) -> None:
        self.recognizer, self.options, self.sinks = recognizer, options, sinks
        self.is_closed = False
        self.boxes = options.read_boxes([source.name for source in options.sources])

    def answer(self, source: Source) -> None:
        """Answer for a source; what is wrong with it is sent to the outputs as ``fail``.

        Errors of the outputs are raised.
        """
        try:
            if source.is_stream or self.options.is_frame_by_frame(self.recognizer):
                self._answer_stream(source)
            else:
                self._answer_file(source)
            self.sinks.end()
        except WindowClosed:
            self.is_closed = True
        except UserError as error:  # decord reads some files that PyAV does not
            if self.sinks.is_broken:
                raise
            self.sinks.fail(spell(source.title), spell(str(error)))

    def _answer_file(self, source: Source) -> None:
        recognizer, options, sinks = self.recognizer, self.options, self.sinks
        video, task, total, done = Path(source.name), recognizer.task, None, 0
        part, predictions = task.part, iter(())
        if task.needs_boxes:
            stated = self.boxes and self.boxes.of(video)
            predictions = options.answer_boxes(recognizer, video, stated)
        elif not task.has_windows or sinks.needs_parts or options.has_windows:
            if task.has_windows:
                total, done = self._count_windows(video)
            predictions = recognizer.timeline(video, **options.timeline_options, first=done)
        else:
            part, predictions = "", iter([recognizer(video)])
        least = recognizer.least_score(options.min_score)
        none = f"no {part}"
        if task.finds_parts:
            none += f" with a score of at least {least:g} (--min-score)"
        sinks.begin(Begun(source, part, total, none=none))
        bar = dict(desc=video.name, total=total, initial=done, unit="window", leave=False)
        for prediction in tqdm(predictions, **bar, disable=None if part else True):
            sinks.append(prediction)
        if not part and not options.sources[1:] and (shots := count_shots(video)) > 1:
            note(f"{video}: one answer for {shots} shots; with --window none crosses a cut")

    def _count_windows(self, video: Path) -> tuple[int, int]:
        """Return how many windows a video has, and how many of them are done."""
        opened, options = self.recognizer.pipeline.open(video), self.options
        windows = self.recognizer.windows(opened, options.window, options.stride, options.cuts)
        times = times_of(opened)
        spans = [times.span(*window.span) for window in windows]
        return len(windows), self.sinks.count(str(video), spans)

    def _answer_stream(self, source: Source) -> None:
        """Answer while frames come in, until they end, or somebody ends them."""
        recognizer, options = self.recognizer, self.options
        by_frame = options.is_frame_by_frame(recognizer)
        count, begin = 0, time.perf_counter()
        with self._capture(source) as capture:
            rate = recognizer.frame_runner.pipeline.rate(capture.fps) if by_frame else capture.fps
            part = "steps" if by_frame else recognizer.task.part
            self.sinks.begin(Begun(source, part, fps=rate))
            frames = _SeenFrames(capture, self.sinks, options.seconds or inf)
            if recognizer.task.needs_boxes:
                frames.late = self._frames_late(capture.fps)
                persons = dict(rate=options.rate, track=options.track, cuts=options.cuts)
                predictions = recognizer.stream_persons(frames, **persons)
            else:
                asked = dict(options.timeline_options, restart=options.restart)
                predictions = recognizer.stream(frames, **asked)
            try:
                with closing(frames):
                    for count, prediction in enumerate(predictions, 1):  # noqa: B007
                        if capture.is_live:
                            capture.note_delay(frames.seconds)
                        self.sinks.append(prediction)
            except ENDS:
                self.is_closed = True
        duration = 1000 * (time.perf_counter() - begin) / max(frames.count, 1)
        if by_frame:
            note(f"{capture.name}: {frames.count} steps, {duration:.1f} ms each")
        elif not count:
            note(f"{capture.name}: no answer in {frames.seconds:.2f} s")

    def _frames_late(self, fps: float) -> int:
        """Return how many frames a film waits for the boxes after its frame."""
        rate = choose_rate(self.options.rate, self.options.track)
        return ceil(self.recognizer.pipeline.span(fps) / 2 + FrameTimes(fps).count(1 / rate)) + 2

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

    Attributes:
        late: Number of frames by which outputs see them later than the model.
        count: Number of frames that the model took.
        seconds: Time of the last one.
    """

    def __init__(self, capture: Capture, sinks: Sinks, end: float) -> None:
        self._capture, self._sinks, self._end = capture, sinks, end
        self._waiting: deque[Frame] = deque()
        self.name, self.fps = capture.name, capture.fps
        self.is_live, self.cuts = capture.is_live, capture.cuts
        self.late, self.count, self.seconds = 1, 0, 0.0

    def frames(self, *steps: Any, **named_steps: Any) -> Iterator[Frame]:
        """Yield the frames of ``Capture.frames`` until time is over."""
        frames = self._capture.frames(*steps, **named_steps)
        for frame in tqdm(frames, unit="frame", leave=False, disable=None):
            if frame[1] >= self._end:
                return
            _, self.seconds, _ = frame
            self.count += 1
            self._waiting.append(frame)
            while len(self._waiting) > self.late:
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

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
            if self.options.is_frame_by_frame(self.recognizer):
                self._answer_frames(source)
            elif source.is_stream:
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

    def _answer_frames(self, source: Source) -> None:
        """Answer after each frame of a file, a camera or an address, with constant memory."""
        count, begin = 0, time.perf_counter()
        with self._capture(source) as capture:
            rate = self.recognizer.frame_runner.pipeline.rate(capture.fps)
            self.sinks.begin(Begun(source, "steps", fps=rate))
            bar = tqdm(total=capture.total, unit="frame", leave=False, disable=None)
            with bar, self._until_the_end():
                for frame in self.recognizer.frame_by_frame(capture, self.options.restart):
                    if frame.seconds >= (self.options.seconds or inf):
                        break
                    count += 1
                    bar.update(frame.number + 1 - bar.n)
                    if capture.is_live:
                        delay = 1000 * capture.note_delay(frame.seconds)
                        bar.set_postfix_str(f"{delay:.0f} ms late, {capture.dropped} dropped")
                    for prediction in frame.predictions:
                        self.sinks.append(prediction)
                    self.sinks.see(frame.number, frame.seconds, lambda x=frame: x.picture)
            duration = 1000 * (time.perf_counter() - begin) / max(count, 1)
            note(f"{capture.name}: {count} steps, {duration:.1f} ms each")

    def _answer_stream(self, source: Source) -> None:
        """Answer for windows of a camera or an address until it ends, or somebody ends it."""
        options, recognizer, count = self.options, self.recognizer, 0
        with self._capture(source) as capture:
            self.sinks.begin(Begun(source, recognizer.task.part, fps=capture.fps))
            late = 0
            if recognizer.task.needs_boxes:
                late = self._frames_late(capture.fps)
                persons = dict(rate=options.rate, track=options.track, cuts=options.cuts)
            frames = _SeenFrames(capture, self.sinks, options.seconds or inf, late)
            if recognizer.task.needs_boxes:
                predictions = recognizer.stream_persons(frames, **persons)
            else:
                predictions = recognizer.stream(frames, **options.timeline_options)
            with self._until_the_end(), closing(frames):
                for prediction in predictions:
                    count += 1
                    if capture.is_live:
                        capture.note_delay(frames.seconds)
                    self.sinks.append(prediction)
            if not count:
                note(f"{capture.name}: no answer in {frames.seconds:.2f} s")

    def _frames_late(self, fps: float) -> int:
        """Return how many frames a film waits for the boxes after its frame."""
        rate = choose_rate(self.options.rate, self.options.track)
        return ceil(self.recognizer.pipeline.span(fps) / 2 + FrameTimes(fps).count(1 / rate)) + 2

    @contextmanager
    def _until_the_end(self) -> Iterator[None]:
        """Answer until somebody ends it."""
        try:
            yield
        except ENDS:
            self.is_closed = True

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
    """Frames of a camera or an address, which outputs see.

    Args:
        capture: Gives them.
        sinks: The outputs.
        end: Seconds after which there are no more.
        late: Number of frames by which outputs see them later than the model.
    """

    def __init__(self, capture: Capture, sinks: Sinks, end: float, late: int) -> None:
        self._capture, self._sinks, self._end, self._late = capture, sinks, end, late
        self._waiting: deque[Frame] = deque()
        self.name, self.fps = capture.name, capture.fps
        self.is_live, self.cuts = capture.is_live, capture.cuts
        self.seconds = 0.0  # of the last frame

    def frames(self, *steps: Any, **named_steps: Any) -> Iterator[Frame]:
        """Yield the frames of ``Capture.frames`` until time is over."""
        for frame in self._capture.frames(*steps, **named_steps):
            _, self.seconds, _ = frame
            if self.seconds >= self._end:
                return
            self._waiting.append(frame)
            while len(self._waiting) > self._late:
                self._show()
            yield frame

    def close(self) -> None:
        """Show the frames that waited for answers."""
        while self._waiting:
            self._show()

    def _show(self) -> None:
        number, seconds, pixels = self._waiting.popleft()
        try:
            self._sinks.see(number, seconds, lambda: pixels)
        except WindowClosed:
            self._waiting.clear()
            raise


def note(text: str) -> None:
    """Print a line beside the answers."""
    tqdm.write(text, file=sys.stderr)

"""Films of videos with their predictions, as files and in a window."""

import os
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from mmvidformer.data.sources import Source
from mmvidformer.errors import UserError
from mmvidformer.sinks.annotate import annotate_frame, draw_boxes, list_bars
from mmvidformer.sinks.base import Begun, Sink, SinkOptions
from mmvidformer.storage.targets import Target
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.video.capture import Capture
from mmvidformer.video.writer import VideoOutput

BOXES_KEPT = 2.0  # seconds after their moment for which boxes of a stream are needed
SHOWN = Path(os.devnull)  # the target of films that are only shown


class WindowClosed(Exception):
    """Somebody pressed q or Esc in the window of a film."""


class Film(Sink):
    """A film of each source, with its sound if it is a file.

    Frames that come in (``see``) are drawn with the latest predictions. Others are drawn at the end
    of their video, with the predictions of their time.

    Raises:
        WindowClosed: By ``see`` and ``end``, if the window was closed.
    """

    has_all_times = is_picture = True
    _begun: Begun
    _kept: list[Prediction]
    _target: Path | None  # None: a window
    _title: str | None  # of a window

    def __init__(self, target: Path, options: SinkOptions) -> None:
        self._place, self._options, self._is_drawn = target, options, False
        self._output: VideoOutput | None = None  # of frames that come in
        self._open: list[Film] = []  # with an output

    @classmethod
    def targets(cls, target: Path, sources: Sequence[Source]) -> list[Target]:
        """Return the films; raise a ``UserError`` if they would be sources of the next run."""
        if not target.is_dir() and target.suffix.lower() not in ("", ".mp4"):
            raise UserError(f"--out is an .mp4 file or a folder, got {target}")
        place, is_folder = target.resolve(), target.is_dir() or not target.suffix
        for source in sources:
            if source.folder is None:
                continue
            folder = source.folder if source.is_found else Path(source.name).parent
            is_within = place.is_relative_to(folder.resolve())
            if is_within if source.is_found else is_folder and place == folder.resolve():
                what = f"--out {target} is in {folder}, whose films would be sources of the next"
                raise UserError(f"{what} run; name another folder")
        return [(source.name, source.target(target, ".mp4")) for source in sources]

    def begin(self, begun: Begun) -> Sink:
        """Open the film of frames that come in."""
        film, source = copy(self), begun.source
        film._begun, film._kept = begun, []
        film._target = None if self._place == SHOWN else source.target(self._place, ".mp4")
        film._title = f"{source.title}: q ends" if self._options.has_window else None
        if begun.fps is not None:
            sound = None if source.is_stream else source.name
            film._output = VideoOutput(film._target, begun.fps, film._title, sound)
            self._open.append(film)
        return film

    def append(self, prediction: Prediction) -> None:
        """Keep a prediction: of frames that come in, until the next one comes after it is drawn.

        Boxes are kept longer, as they are drawn at their own time.
        """
        if self._is_drawn and not prediction.box:
            self._kept, self._is_drawn = [], False
        self._kept.append(prediction)

    def see(self, number: int, seconds: float, pixels: np.ndarray) -> None:
        """Draw a frame, once there is a prediction."""
        if self._output is None or not self._kept:
            return
        last = self._kept[-1]
        if last.box:
            kept = [box for box in self._kept if seconds - box.span[0] <= BOXES_KEPT]
            self._kept = kept or [last]
            image = draw_boxes(pixels, last.task.shown_at(self._kept, seconds))
        else:
            latest = self._kept if last.ahead is not None else [last]
            bars = list_bars(latest, self._options.top, self._options.ahead)
            image = annotate_frame(pixels, f"{seconds:.2f} s, frame {number}", bars)
        self._is_drawn = True
        if not self._output.add(image, None if self._begun.source.is_stream else seconds):
            raise WindowClosed

    def end(self) -> None:
        """Complete the film, or draw it."""
        if self._output is not None:
            self.close()
        else:
            video = Path(self._begun.source.name)
            annotate_video(video, self._kept, self._target, self._title, self._options.top)
        if self._target and self._target.is_file():
            self._options.say(f"written: {self._target}")

    def fail(self, video: str, error: str) -> None:
        """Complete the film of a camera or an address that went away; drop that of a file."""
        if self._output is not None:
            is_dropped = not self._begun.source.is_stream
            self.close(*([ValueError, ValueError(error), None] if is_dropped else []))

    def close(self, *error: Any) -> None:
        """Complete the films, or drop them if there is an error."""
        for film in [self] if self._output is not None else [*self._open]:
            self._open.remove(film)
            output, film._output = film._output, None
            if output is not None:
                output.__exit__(*(error or (None, None, None)))


def annotate_video(
    video: Path,
    predictions: Sequence[Prediction],
    target: Path | None = None,
    title: str | None = None,
    k: int = 5,
) -> None:
    """Write and show a video with its predictions, and its sound.

    Args:
        video: The file.
        predictions: Predictions of its windows, steps, segments or boxes, or of the whole.
        target: File to write (.mp4).
        title: Title of a window to show.
        k: Number of classes, except of boxes.

    Raises:
        WindowClosed: If the window was closed.
    """
    with Capture(video) as source, VideoOutput(target, source.fps, title, video) as output:
        frames = tqdm(source.frames(), total=source.total, unit="frame", leave=False, disable=None)
        for number, seconds, pixels in frames:
            shown = predictions and predictions[0].task.shown_at(predictions, seconds)
            if predictions and predictions[0].box:
                image = draw_boxes(pixels, shown)
            else:
                bars = list_bars(shown, k)
                image = annotate_frame(pixels, f"{seconds:.2f} s, frame {number}", bars)
            if not output.add(image, seconds):
                raise WindowClosed

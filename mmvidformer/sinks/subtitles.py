"""Subtitles, which players show and editors import: SubRip (.srt) and WebVTT (.vtt)."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from mmvidformer.data.sources import Source
from mmvidformer.errors import UserError
from mmvidformer.sinks.base import Sink, SinkOptions
from mmvidformer.storage.targets import Target
from mmvidformer.tasks.joined_windows import JoinedWindows
from mmvidformer.tasks.prediction import Prediction

SHOWN = 1.0  # seconds for which a moment is shown, as in films


class Subtitles(Sink):
    """A cue for each segment of one class of a video, with its class and score.

    Raises:
        UserError: If the file is neither ``.srt`` nor ``.vtt``, or has several videos.
    """

    needs_parts = True

    @classmethod
    def targets(cls, target: Path, sources: Sequence[Source]) -> list[Target]:
        """Return the file; raise a ``UserError`` if there are several videos."""
        if len(sources) > 1:
            raise UserError(f"--subtitles are of one video, got {len(sources)} sources")
        return super().targets(target, sources)

    def __init__(self, target: Path, options: SinkOptions) -> None:
        suffix = target.suffix.lower()
        if suffix not in (".srt", ".vtt"):
            raise UserError(f"subtitles are .srt or .vtt, got {target}")
        self.target = target
        self._comma = "," if suffix == ".srt" else "."
        self._file = self.open_rows(target, options)
        if suffix == ".vtt":
            self._file.write("WEBVTT\n\n")
        self._joined, self._count = JoinedWindows(), 0
        self._video: str | None = None

    def append(self, prediction: Prediction) -> None:
        """Take the next prediction of the video."""
        if self._video is not None and prediction.source != self._video:
            raise UserError(f"{self.target} has the subtitles of {self._video}; use one video")
        self._video = prediction.source
        self._write(self._joined.add(prediction))

    def finish(self) -> None:
        """Write the last segments."""
        self._write(self._joined.end())

    def _write(self, segments: Sequence[Prediction]) -> None:
        for segment in segments:
            start, end = segment.span
            self._count += 1
            end = end if end > start else start + SHOWN
            times = f"{self._clock(start)} --> {self._clock(end)}"
            text = " ".join(segment.text(1).split())
            text = escape(text, quote=False) if self._comma == "." else text  # SubRip has none
            self._file.write(f"{self._count}\n{times}\n{text}\n\n")

    def _clock(self, seconds: float) -> str:
        minutes, milliseconds = divmod(round(1000 * seconds), 60_000)
        hours, minutes = divmod(minutes, 60)
        whole, part = divmod(milliseconds, 1000)
        return f"{hours:02}:{minutes:02}:{whole:02}{self._comma}{part:03}"

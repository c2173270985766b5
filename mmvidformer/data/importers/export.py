"""What another tool exported: the file, and the videos that it names."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from zipfile import ZipFile

from mmvidformer.data.folders import NamedVideos
from mmvidformer.data.tables import Table, read_table
from mmvidformer.data.text import decode_text
from mmvidformer.errors import UserError
from mmvidformer.storage.errors import refuse
from mmvidformer.video.errors import BadVideo
from mmvidformer.video.times import FrameTimes
from mmvidformer.video.video import Video

HEAD = 4096  # characters that tell formats apart
GZIP = b"\x1f\x8b"
ZIP = b"PK\x03\x04"
SUFFIXES = (".xml", ".json")  # of annotations in a ZIP
SPREADSHEETS = ("xl/workbook.xml", "content.xml", "Index/Document.iwa")  # files in a ZIP of one
XLS = b"\xd0\xcf\x11\xe0"  # of Excel until 2003
MOST_BYTES = 1 << 30  # of a text that is unpacked


class Export:
    """A file or folder of annotations. Its content is read once, when it is asked for.

    Attributes:
        path: The file, or folder.
        videos: The videos that may be meant.
        folder: Their folder.
        left_out: What no task takes, with its number.
        skipped: Why videos are left out, by their names.
        fps: Frames per second of the tool; None: those of each video.
        has_frames: Whether somebody asked when a frame is shown.

    Args:
        path: The file, or folder.
        folder: Folder of the videos, or some videos. Default: the folder of the file.
        fps: Frames per second of the tool. Default: those of each video.
    """

    def __init__(
        self,
        path: str | Path,
        folder: str | Path | NamedVideos | None = None,
        fps: float | None = None,
    ) -> None:
        self.fps, self.has_frames = fps, False
        self.path = Path(path)
        beside = self.path if self.path.is_dir() else self.path.parent
        is_named = isinstance(folder, NamedVideos)
        self.videos = folder if is_named else NamedVideos(folder or beside)
        self.folder = self.videos.folder
        self.left_out: Counter[str] = Counter()
        self.skipped: dict[str, str] = {}
        self._find = cache(self.videos.find)
        self._open = cache(self._open_video)

    def part(self, file: Path) -> Export:
        """Return a file of the folder, with the same videos and counts."""
        part = Export(file, self.videos, self.fps)
        part._find, part._open = self._find, self._open
        part.left_out, part.skipped = self.left_out, self.skipped
        return part

    @cached_property
    def text(self) -> str:
        """The whole text, also of a file that gzip compressed, or in a ZIP; empty of a folder.

        Raises:
            UserError: If a ZIP has several files of annotations, or none; if it is damaged, or
                larger than ``MOST_BYTES``.
        """
        if self.path.is_dir():
            return ""
        content = self.path.read_bytes()
        if content.startswith(XLS):
            raise UserError(f"{self.path} is a spreadsheet; save it as csv, in UTF-8")
        if content.startswith((GZIP, ZIP)):
            content = self._unpack_text(content)
        return decode_text(content, self.path)

    def _unpack_text(self, content: bytes) -> bytes:
        with refuse(f"{self.path} is damaged, or encrypted", with_reason=True):
            if content.startswith(GZIP):
                with gzip.open(BytesIO(content)) as packed:
                    text = packed.read(MOST_BYTES + 1)
            else:
                text = self._unpack(content)
        if len(text) > MOST_BYTES:
            raise UserError(f"{self.path} has more than {MOST_BYTES >> 20} MiB; unpack it yourself")
        return text

    def _unpack(self, content: bytes) -> bytes:
        with ZipFile(BytesIO(content)) as archive:
            if {*archive.namelist()} & {*SPREADSHEETS}:
                raise UserError(f"{self.path} is a spreadsheet; save it as csv, in UTF-8")
            names = [name for name in archive.namelist() if name.lower().endswith(SUFFIXES)]
            if len(names) != 1:
                shown = ", ".join(names[:5]) or "none"
                raise UserError(f"{self.path} must have one file of annotations, it has {shown}")
            with archive.open(names[0]) as packed:
                return packed.read(MOST_BYTES + 1)

    @cached_property
    def head(self) -> str:
        """The first characters, without spaces before them."""
        return self.text[:HEAD].lstrip()

    @cached_property
    def json(self) -> Any:
        """The content of a JSON file, a list of that of JSON lines; None of another file.

        Raises:
            UserError: If it begins as JSON and is damaged.
        """
        if not self.head.startswith(("{", "[")):
            return None
        with refuse(f"{self.path} is no JSON", with_reason=True):
            if self.path.suffix.lower() == ".jsonl":
                return [json.loads(line) for line in self.text.splitlines() if line.strip()]
            return json.loads(self.text)

    @cached_property
    def xml(self) -> ElementTree.Element | None:
        """The root of an XML file; None of another file.

        Raises:
            UserError: If it begins as XML and is damaged, or declares a type or entities, which
                may grow without bound and which no tool writes.
        """
        if not self.head.startswith("<"):
            return None
        if "<!DOCTYPE" in self.text or "<!ENTITY" in self.text:
            raise UserError(f"{self.path} has a DOCTYPE or entities, which are not read")
        try:
            return ElementTree.fromstring(self.text)
        except ElementTree.ParseError as error:
            raise UserError(f"{self.path} is no XML: {error}") from error

    @cached_property
    def table(self) -> Table | None:
        """The content of a table of text; None of JSON, XML or a folder.

        Raises:
            UserError: As ``read_table``.
        """
        if self.path.is_dir() or self.head.startswith(("{", "[", "<")):
            return None
        return read_table(self.path, self.folder)

    @property
    def columns(self) -> list[str]:
        """Names of the columns of a table; none of another file."""
        return self.table.columns if self.table is not None else []

    def find(self, video: str) -> Path | None:
        """Return the file of a video by its name; None if it is not there, or is left out."""
        return None if video in self.skipped else self._find(video)

    def leave_out(self, noun: str, count: int = 1) -> None:
        """Count what no task takes, such as a ``'polygon'``; a line names it."""
        self.left_out[noun] += count

    def seconds(self, video: str, frame: int, fps: float | None = None) -> str:
        """Return when a frame, counted from 0, is first shown, by a rate or the video's times.

        Empty if there is no such video; rows of such a video are left out.

        Args:
            video: Name of the video.
            frame: Number of the frame.
            fps: Frames per second that the file states, unless the user does (``fps``).
        """
        self.has_frames = True
        fps = fps if self.fps is None else self.fps
        if fps is not None:
            return show_second(FrameTimes(fps), frame)
        opened = self._open(video)
        return "" if opened is None else show_second(opened.frame_times, frame)

    def size(self, video: str) -> tuple[int, int] | None:
        """Return width and height of a video, if there is one."""
        opened = self._open(video)
        return None if opened is None else (opened.size[1], opened.size[0])

    def duration(self, video: str) -> float | None:
        """Return the seconds of a video, if there is one."""
        opened = self._open(video)
        return None if opened is None else opened.duration

    def _open_video(self, name: str) -> Video | None:
        """Open a video; one that cannot be read, or has no rate, counts as missing."""
        path = self.find(name)
        if path is None:
            return None
        try:
            opened = Video.open(path)
            opened.duration, opened.size  # noqa: B018  need the rate, and a frame
        except BadVideo as error:
            self.skipped[name] = str(error)
            return None
        return opened


def show_second(times: FrameTimes, frame: int) -> str:
    """Return the second at which a frame is first shown, as the text of a cell."""
    return str(round(float(times.seconds(frame)), 6))


@contextmanager
def reading(place: str) -> Iterator[None]:
    """Say where an export is damaged: a part of it that is missing or of another type.

    Raises:
        UserError: In place of what such a part raises.
    """
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}: {error}") from error
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        raise UserError(f"{place} is damaged: {type(error).__name__} {error}") from error

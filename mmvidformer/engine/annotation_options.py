"""How a file of annotations is read: options of all commands that read one."""

from __future__ import annotations

from argparse import Action, ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmvidformer.data.formats import FORMATS
from mmvidformer.engine.arguments import positive_number
from mmvidformer.engine.options import Options, option
from mmvidformer.errors import UserError

if TYPE_CHECKING:
    from mmvidformer.data.folders import NamedVideos
    from mmvidformer.data.tables import Table


class _Pairs(Action):
    """Pairs of names and values, of ``NAME=VALUE``."""

    def __call__(self, parser: ArgumentParser, args: Any, texts: Any, *_: object) -> None:
        pairs = [text.partition("=") for text in texts]
        if wrong := [name for name, _, value in pairs if not (name and value)]:
            parser.error(f"{self.option_strings[0]} must be {self.metavar}, got {wrong[0]!r}")
        setattr(args, self.dest, [(name, value) for name, _, value in pairs])


@dataclass(frozen=True)
class ReadingOptions(Options):
    """How annotations are read, of videos that are known otherwise."""

    columns: Sequence[tuple[str, str]] = option(
        'other names of columns: start="Start (s)" label=Behavior',
        (),
        nargs="+",
        action=_Pairs,
        metavar="NAME=COLUMN",
    )
    only: Sequence[tuple[str, str]] = option(
        "take only rows with a value in a column of the file, or one of several: tier=feeding",
        (),
        nargs="+",
        action=_Pairs,
        metavar="COLUMN=VALUE",
    )
    format: str | None = option(
        f"tool that wrote the annotations: {', '.join(FORMATS)}, or a module of your own "
        "(default: found by the content)",
        metavar="NAME",
    )
    fps: float | None = option(
        "frames a second of a tool that numbers frames, such as Label Studio's frameRate "
        "(default: those of each video)",
        type=positive_number,
        metavar="N",
    )

    def open(self, path: str | Path, videos: str | Path | NamedVideos | None = None) -> Table:
        """Read annotations of videos, or those in a folder, as ``open_annotations``."""
        from mmvidformer.data.importers import open_annotations

        return open_annotations(path, videos, dict(self.columns), self.format, self.fps, self.only)

    def check(self, file: object, needed: str) -> None:
        """Raise a ``UserError`` if they are given without the option of the file that is read."""
        if self != type(self)() and not file:
            raise UserError(f"--columns, --only, --format and --fps need {needed}")


@dataclass(frozen=True)
class AnnotationOptions(ReadingOptions):
    """What ``open_annotations`` takes besides the file."""

    root: str | None = option(
        "folder of the annotated videos (default: that of the annotations)", metavar="FOLDER"
    )

    def open(self, path: str | Path, videos: str | Path | NamedVideos | None = None) -> Table:
        """Read annotations of the videos in ``root``, if no others are given."""
        return super().open(path, self.root if videos is None else videos)

"""Annotations that other tools export, a file for each tool, recognized by content."""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol

from mmvidformer.data.folders import NamedVideos, is_video
from mmvidformer.data.formats import FORMATS
from mmvidformer.data.importers.export import Export
from mmvidformer.data.list_folders import NO_TEXT, is_text
from mmvidformer.data.lists import say_count
from mmvidformer.data.tables import Table
from mmvidformer.errors import MissingFile, UserError

Rows = Iterator[tuple[Mapping[str, str], str]]


class Importer(Protocol):
    """A module with two functions. A new one has a line in ``data.formats``."""

    def recognize(self, export: Export) -> bool:
        """Whether the tool wrote the file or folder."""

    def read(self, export: Export) -> Rows:
        """Yield rows, by the names of columns, and their places for messages.

        ``video`` is the name in the export; its file is found here. A row has a ``label`` of the
        video, or one of a time: ``time`` of a moment, ``start`` and ``end``, or ``time`` with the
        corners of a box, ``x1``, ``y1``, ``x2``, ``y2``, as shares of the frame. ``split``,
        ``group`` and ``track`` may stand in all, and further columns, as ``--columns label=tier``
        can choose them. A row of a video alone says that it has no annotations. Times are in
        seconds: ``Export.seconds`` of frames. What is no such row goes to ``Export.leave_out``.
        """


IMPORTERS: dict[str, Importer] = {
    name: import_module(f"{__name__}.{name.replace('-', '_')}") for name in FORMATS
}


def open_annotations(
    path: str | Path,
    folder: str | Path | NamedVideos | None = None,
    columns: Mapping[str, str] | None = None,
    importer: str | None = None,
    fps: float | None = None,
    only: Iterable[tuple[str, str]] = (),
) -> Table:
    """Read annotations: a table of text (``read_table``), or what another tool exported.

    Args:
        path: The file, or folder.
        folder: Folder of the videos, or some videos; default: the folder of the file. Videos of an
            export may be in any folder below it, or where the export says.
        columns: Names of columns, by what they mean here: ``{'label': 'Behavior'}``.
        importer: Name in ``IMPORTERS``, or of a module. Default: the first that recognizes it.
        fps: Frames per second of a tool that numbers frames. Default: those of each video.
        only: Names of columns, as they are in the file, and values of the rows that are taken.

    Raises:
        FileNotFoundError: If there is no such file.
        UserError: If it is neither, no video of an export is there, or it numbers no frames, and
            ``fps`` is given.
    """
    path = Path(path)
    if not path.exists():
        raise MissingFile(f"{path} does not exist")
    if path.is_file() and is_video(str(path)):
        raise UserError(f"{path} is a video; give the file of its annotations")
    export = Export(path, folder, fps)
    name = importer or recognize(export)
    if name:
        table = _import(name, export)
    elif is_video(export.head.partition("\n")[0].strip()):
        what = "names videos without their classes"
        hint = "give a csv video,label, or UCF101's folder of all lists"
        raise UserError(f"{path} {what}; a line is PATH NUMBER, or {hint}")
    elif export.table is not None:
        table = export.table
        if not table.columns:
            raise UserError(f"{path} is empty")
    else:
        root = "" if export.xml is None else f", but XML <{export.xml.tag}>"
        known = ", ".join(IMPORTERS)
        raise UserError(f"{path} is no table{root}, and of no tool that is known: {known}")
    if fps is not None and not export.has_frames:
        raise UserError(f"--fps {fps:g}: {path} has no frames without a time")
    return table.select(only).rename(columns or {})


def recognize(export: Export) -> str | None:
    """Return the name of the importer of an export, if there is one."""
    for name, importer in IMPORTERS.items():
        if importer.recognize(export):
            return name
    return None


def find_format(path: str | Path) -> str | None:
    """Return the name of the importer of a file or folder, if there is one."""
    return recognize(Export(path))


def _import(name: str, export: Export) -> Table:
    """Read an export. Rows of videos without a file are left out."""
    importer = find_importer(name)
    rows: list[tuple[Mapping[str, str], str]] = []
    videos: set[str] = set()
    for row, place in importer.read(export):
        video = export.find(row["video"])
        if video is None:
            export.skipped.setdefault(row["video"], f"it is not {export.videos.place}")
        elif not is_text(str(video)):
            export.skipped[row["video"]] = NO_TEXT
        else:
            if row.get("start") and row.get("start") == row.get("end"):
                row = {**row, "time": row["start"], "start": "", "end": ""}  # a moment
            rows.append(({**row, "video": str(video.absolute())}, place))
            videos.add(row["video"])
    if export.skipped and not rows:
        count = f"none of the {len(export.skipped)} videos"
        raise UserError(f"{count} of {export.path} is {export.videos.place}")
    if not rows:
        left_out = ", ".join(say_count(count, noun) for noun, count in export.left_out.items())
        left_out = f"; left out: {left_out}" if left_out else ""
        raise UserError(f"{export.path} has no annotations of videos{left_out}")
    names = [*dict.fromkeys(name for row, _ in rows for name in row)]
    values = [([row.get(name, "") for name in names], place) for row, place in rows]
    return Table(
        export.path,
        names,
        values,
        export.folder,
        importer=name,
        skipped=export.skipped,
        left_out=export.left_out,
    )


def find_importer(name: str) -> Importer:
    """Return an importer by its name in the table, or that of a module.

    Raises:
        UserError: If there is none.
    """
    if name in IMPORTERS:
        return IMPORTERS[name]
    try:
        return import_module(name)
    except ImportError as error:
        known = ", ".join(IMPORTERS)
        raise UserError(f"--format must be {known}, or a module; {name}: {error}") from error

"""What is wrong in annotation files, and in the videos that they name."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from av.error import FFmpegError

from mmvidformer.datasets.csv_rows import read_header, read_rows, read_text
from mmvidformer.datasets.own_videos import CLASSES, find_named
from mmvidformer.tasks.activitynet import read_activitynet
from mmvidformer.tasks.annotations import (
    Span,
    read_float,
    read_span,
    read_video,
    span_faults,
    value_names,
)
from mmvidformer.tasks.boxes import COLUMNS, line_faults, read_box
from mmvidformer.video.errors import with_suffix
from mmvidformer.video.video import Video

REQUIRED = {  # columns of csv files, by task
    "labels": ("video", "label"),
    "number": ("video",),
    "frames": ("video", "start", "end", "label"),
    "segments": ("video", "start", "end", "label"),
}


def find_annotation_faults(
    file: str | Path,
    folder: str | Path,
    task: str | None = None,
    classes: Sequence[str] | None = None,
) -> tuple[list[str], list[Path]]:
    """Find all that is wrong in a file of labels, numbers, spans or boxes, by file and line.

    Values that are no numbers, spans that end before they start, overlap or end after their video,
    boxes outside of the frame or the video, unknown classes, missing videos, and those whose frame
    rate is unknown, if the task has seconds.

    Args:
        file: What ``split_annotations`` reads.
        folder: Folder that the paths of the videos are relative to.
        task: A name of ``TASKS`` but ``'classes'``; default: the one that the columns fit.
        classes: Names of the classes; default: those of ``classes.txt`` beside the file, if any.

    Returns:
        The faults, and the videos that exist.

    Raises:
        ValueError: If a column is missing.
    """
    file = Path(file)
    task = task or _guess_task(file)
    if classes is None:
        names = file.parent / CLASSES
        classes = read_text(names).splitlines() if names.is_file() else []
    missing: list[str] = []
    if file.suffix == ".json":
        rows, missing = read_activitynet(file, Path(folder))
    elif task == "boxes":
        rows = list(read_rows(file, header=COLUMNS))
    else:
        rows = list(read_rows(file, *REQUIRED[task]))
    faults = list(line_faults(file)) if task == "boxes" else []
    spans: dict[str, list[Span]] = {}
    for row, where in rows:
        try:
            spans_of_video = spans.setdefault(read_video(row, where), [])
            spans_of_video += _read(row, where, task, len(classes))
        except ValueError as error:
            faults.append(str(error))
    if task in ("frames", "segments"):
        in_order = {video: sorted(own) for video, own in spans.items()}
        faults += span_faults(in_order, overlap=task == "segments")
        faults += [
            f"{span.where}: {span.label!r} is no class of {file.parent / CLASSES}"
            for span in chain(*spans.values())
            if classes and span.label not in ("", *classes)
        ]
    faults += [f"{file}, {name}: video {Path(folder, name)} does not exist" for name in missing]
    paths = {video: Path(with_suffix(str(Path(folder, video)))) for video in spans}
    if task == "boxes":
        try:
            named = find_named(folder, spans)
            paths |= {name: path.absolute() for name, path in named.items()}
        except FileNotFoundError:  # each missing video is a fault
            pass
        except ValueError as error:
            return [*faults, str(error)], []
    videos = []
    for video, own in spans.items():
        if not paths[video].is_file():
            where = own[0].where if own else file
            faults.append(f"{where}: video {paths[video]} does not exist")
            continue
        videos.append(paths[video])
        if task in ("frames", "segments", "boxes"):
            name = str(paths[video]) if task == "boxes" else video
            faults += _time_faults(paths[video], name, own)
    return faults, videos


def _guess_task(file: Path) -> str:
    """Return the task whose columns a file has."""
    if file.suffix == ".json":
        return "segments"
    columns = read_header(file)
    # Files of boxes have no header: the first row is a name, a whole second and the box.
    if "video" not in columns and len(columns) >= 7 and columns[1].isdigit():
        return "boxes"
    if "start" in columns or "end" in columns:
        return "frames"
    return "number" if value_names(columns) else "labels"


def _read(row: dict[str, str], where: str, task: str, classes: int) -> list[Span]:
    """Read the spans of a row, if its task has some; raises a ``ValueError`` for what is wrong."""
    if task == "boxes":
        (_, second), *_ = read_box(row, where, classes)
        return [Span(second, second, "", where)]
    if task in ("frames", "segments"):
        return read_span(row, where)
    if task == "number":
        for name in value_names(row):
            read_float(row, name, where)
    return []


def _time_faults(path: Path, name: str, spans: Sequence[Span]) -> Iterator[str]:
    """Describe what is wrong in the times of a video, and the spans after its end."""
    with suppress(FFmpegError, OSError, ValueError):  # bad files are reported as such
        video = Video.open(path)
        if not video.get_avg_fps():
            yield f"{path}: its frame rate is unknown"
            return
        seconds = video.duration
        for span in spans:
            if span.end > seconds + 0.5:
                after = f"is after the end of {name}, at {seconds:.2f} s"
                yield f"{span.where}: {span.end:g} s {after}"

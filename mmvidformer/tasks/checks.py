"""What is wrong in annotation files, and in the videos that they name."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from mmvidformer.data.list_folders import CLASSES
from mmvidformer.data.tables import Table
from mmvidformer.data.text import read_text
from mmvidformer.storage.names import describe_other_form
from mmvidformer.storage.targets import identity_of
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.imports import guess_task, select_rows
from mmvidformer.tasks.reading import Annotations
from mmvidformer.tasks.table import find_task
from mmvidformer.video.errors import BadVideo
from mmvidformer.video.video import Video

TOLERANCE = 0.5  # seconds by which an annotation may be after the end of its video


def find_annotation_faults(
    table: Table, task: str | None = None
) -> tuple[list[str], dict[str, Path]]:
    """Find all that is wrong in a file of annotations, by file and line, and in its videos.

    These are the mistakes that training refuses (``Task.read``), missing videos and, if the task
    has seconds, what is after the end of its video, and videos whose frame rate is unknown. The
    classes are those of ``classes.txt`` beside the file, if any.

    Args:
        table: What ``open_annotations`` returns.
        task: Name of a task, as in ``find_task``; default: ``guess_task``.

    Returns:
        The faults, and the files of the videos that exist, by their names.

    Raises:
        UserError: If a column is missing.
    """
    file = table.file
    found_task = find_task(task) if task else guess_task(table)
    names = file.parent / CLASSES
    classes = read_text(names).splitlines() if names.is_file() else []
    annotations = found_task.read(select_rows(table, found_task.nouns), classes)
    faults = list(annotations.faults)
    if not annotations.rows and not faults:
        faults.append(f"{file} has no rows")
    faults += annotations.repeated
    faults += [f"{file}, {name}: {reason}" for name, reason in table.skipped.items()]
    video_faults, videos = check_videos(found_task, annotations)
    return faults + video_faults, videos


def check_videos(task: Task, annotations: Annotations) -> tuple[list[str], dict[str, Path]]:
    """Return what is wrong with the annotated videos, and the files of those that exist."""
    try:
        paths = task.video_paths(annotations, annotations.table.folder)
    except ValueError as error:  # two files have one name
        return [str(error)], {}
    faults: list[str] = []
    videos: dict[str, Path] = {}
    names: dict[object, str] = {}  # of each file
    for video, path in paths.items():
        other = names.setdefault(identity_of(str(path)), video)
        if other != video:
            faults.append(f"{annotations.places[video]}: {video} is the same file as {other}")
        if not path.is_file():
            fault = f"{annotations.places[video]}: video {path} does not exist"
            faults.append(fault + describe_other_form(path))
            continue
        videos[video] = path
        if task.has_seconds:
            faults += _time_faults(task, annotations.videos[video], path, video)
    return faults, videos


def _time_faults(task: Task, rows: Sequence, path: Path, name: str) -> Iterator[str]:
    """Describe what is wrong in the times of a video, and the annotations after its end."""
    shown = name if Path(name).name == path.name else path
    with suppress(BadVideo):  # bad files are reported as such
        video = Video.open(path)
        if not video.get_avg_fps():
            yield f"{path}: its frame rate is unknown"
            return
        for row in rows:
            last = task.last_second(row)
            if last > video.duration + TOLERANCE:
                after = f"is after the end of {shown}, at {video.duration:.2f} s"
                yield f"{row.where}: {last:g} s {after}"

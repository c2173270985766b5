"""Annotations that are checked."""

from contextlib import suppress
from pathlib import Path

from mmvidformer.data.folders import is_video
from mmvidformer.data.importers import find_format
from mmvidformer.data.importers.mmaction2 import open_list
from mmvidformer.data.lists import VideoList, read_video_list
from mmvidformer.data.tables import Table
from mmvidformer.engine.annotation_options import AnnotationOptions
from mmvidformer.errors import UserError
from mmvidformer.tasks.imports import guess_task, say_left_out, select_rows
from mmvidformer.tasks.table import find_task, spell_task


def open_table(
    source: Path, task_name: str | None, options: AnnotationOptions
) -> tuple[Table | None, str]:
    """Return the annotations and the name of their task; None of a video, or a folder of videos."""
    if is_video(str(source)):
        return None, ""
    tool = options.format or find_format(source)
    if tool == "class-folders":
        return None, ""
    if tool in (None, "mmaction2") and source.suffix.lower() == ".txt":
        table = open_list(source, Path(options.root or source.parent))
        one_label = len({place for _, place in table.rows}) == len(table.rows)
        has_labels = all(label for (_, label), _ in table.rows)
        return table, task_name or ("classes" if one_label and has_labels else "labels")
    table = options.open(source)
    task = find_task(task_name) if task_name else guess_task(table)
    table = select_rows(table, task.nouns)
    if table.left_out:
        print(f"{source}: left out: {say_left_out(table)}")
    return table, spell_task(task)


def read_list(table: Table | None) -> VideoList | None:
    """Return the list that annotations are, of which one without bad videos can be written."""
    if table is None or table.importer or "video" not in table.names:
        return None
    with suppress(UserError):  # a row without a video, which is a fault of the annotations
        return read_video_list(table.file)
    return None

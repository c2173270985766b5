"""The lists that a run of ``mmvidformer finetune`` reads, made of annotations if need be."""

from dataclasses import replace
from pathlib import Path

from mmvidformer.data.list_folders import CLASSES, VideoLists
from mmvidformer.engine.annotation_options import AnnotationOptions
from mmvidformer.errors import UserError
from mmvidformer.finetune.prepare import config_path
from mmvidformer.finetune.settings import FinetuneOptions
from mmvidformer.tasks.imports import name_task
from mmvidformer.tasks.lists import read_task_lists, split_annotations
from mmvidformer.tasks.table import find_task


def open_data(options: FinetuneOptions) -> tuple[FinetuneOptions, VideoLists]:
    """Read the folder of lists ``options.data``, or list what ``mmvidformer data list`` reads.

    The lists of annotations, of an export or of folders of classes go to ``WORK_DIR/lists``. A run
    that goes on, and a comparison, read those that are there.

    Returns:
        The options, with the task that an export is for if none is given; and the lists.

    Raises:
        FileExistsError: If there are lists in the work dir, or another run, and not ``--force``.
        UserError: If the annotations are wrong.
    """
    data = Path(options.data)
    if not data.exists() or _has_lists(data, options.recipe.task):
        is_passed_on = options.compare is False  # by --compare, with the lists that it made
        if options.annotations != AnnotationOptions() and not is_passed_on:
            how = "--root, --columns, --only, --format and --fps are for annotations"
            raise UserError(f"{data} has lists, or does not exist; {how}")
        return options, read_task_lists(data, options.recipe.task)
    table = options.annotations.open(data)
    guesses_task = options.guesses_task and table.importer
    task = name_task(table, None if guesses_task else options.recipe.task)
    options = replace(options, recipe=replace(options.recipe, task=task))
    path = config_path(replace(options, force=options.force or bool(options.compare)), "finetune")
    folder = path.parents[1] / "lists"
    goes_on = options.resume or options.compare and not options.force
    if goes_on and _has_lists(folder, task):
        return options, read_task_lists(folder, task)
    return options, split_annotations(table, task, folder, force=options.force)


def _has_lists(folder: Path, task: str) -> bool:
    """Whether a folder has lists of a task, or of another one, which reading them says."""
    is_classified = (folder / CLASSES).is_file() and any(folder.glob("train.[ct][sx][vt]"))
    return is_classified or find_task(task).list_file(folder, "train").is_file()

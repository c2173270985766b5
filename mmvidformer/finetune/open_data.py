"""The lists that a run of ``mmvidformer finetune`` reads, made of annotations if need be."""

from dataclasses import replace
from pathlib import Path

from mmvidformer.data.list_folders import CLASSES, VideoLists, find_folds
from mmvidformer.data.tables import Table
from mmvidformer.engine.annotation_options import AnnotationOptions
from mmvidformer.errors import UserError
from mmvidformer.finetune.folds import RECORD
from mmvidformer.finetune.prepare import config_path
from mmvidformer.finetune.settings import FinetuneOptions
from mmvidformer.tasks.imports import name_task
from mmvidformer.tasks.lists import fold_annotations, read_task_lists, split_annotations
from mmvidformer.tasks.table import find_task


def open_data(options: FinetuneOptions) -> tuple[FinetuneOptions, VideoLists]:
    """Read the folder of lists ``options.data``, or list what ``mmvidformer data list`` reads.

    The lists of annotations, of an export or of folders of classes go to ``WORK_DIR/lists``. A run
    that goes on reads those that are there.

    Returns:
        The options, with the task that an export is for if none is given; and the lists.

    Raises:
        FileExistsError: If there are lists in the work dir, or another run, and not ``--force``.
        UserError: If the annotations are wrong.
    """
    data = Path(options.data)
    if not data.exists() or _has_lists(data, options.recipe.task):
        _check_no_annotations(options)
        return options, read_task_lists(data, options.recipe.task)
    options, table, folder = _open_table(options)
    task = options.recipe.task
    if options.resume and _has_lists(folder, task):
        return options, read_task_lists(folder, task)
    return options, split_annotations(table, task, folder, force=options.force)


def open_folds(options: FinetuneOptions) -> tuple[FinetuneOptions, dict[str, Path]]:
    """Find the folders of folds in ``options.data``, or make them of annotations.

    Annotations state folds, or ``options.folds`` says how many are drawn; they go to
    ``WORK_DIR/lists``. The same command goes on with those that are there.

    Returns:
        The options, with the task that an export is for if none is given; and the folders by fold.

    Raises:
        FileExistsError: If there are lists of another run in the work dir, and not ``--force``.
        UserError: If there are no folds, or not that one; or the annotations are wrong.
    """
    data = Path(options.data)
    folders = find_folds(data)
    if folders or not data.exists() or _has_lists(data, options.recipe.task):
        _check_no_annotations(options)
        if not folders:
            makes = "mmvidformer data list --folds 5 makes them"
            raise UserError(f"{data} has no folds; {makes}, or --folds 5 of annotations")
        if options.folds:
            raise UserError(f"{data} has folds already: --folds, without {options.folds}")
    else:
        options, table, folder = _open_table(options)
        folders = {} if options.force else find_folds(folder)
        if not folders or not (folder.parent / RECORD).is_file():
            if not options.folds and "fold" not in table.names:
                raise UserError(f"{data} states no folds; --folds 5 draws them")
            arguments = options.recipe.task, folder, options.folds or None
            fold_annotations(table, *arguments, seed=options.recipe.seed, force=options.force)
            folders = find_folds(folder)
    if options.fold is not None and options.fold not in folders:
        raise UserError(f"{data} has no fold {options.fold}, but {', '.join(folders)}")
    return options, folders


def _check_no_annotations(options: FinetuneOptions) -> None:
    """Raise a ``UserError`` if it is said how annotations are read, but there are lists."""
    if options.annotations != AnnotationOptions():
        how = "--root, --columns, --only, --format and --fps are for annotations"
        raise UserError(f"{options.data} has lists, or does not exist; {how}")


def _open_table(options: FinetuneOptions) -> tuple[FinetuneOptions, Table, Path]:
    """Return the options with the task of annotations, their rows, and the folder of the lists."""
    table = options.annotations.open(options.data)
    guesses_task = options.task is None and table.importer
    task = name_task(table, None if guesses_task else options.recipe.task)
    options = replace(options, recipe=replace(options.recipe, task=task))
    may_exist = options.force or options.folds is not None or options.fold
    path = config_path(replace(options, force=bool(may_exist)), "finetune")
    return options, table, path.parents[1] / "lists"


def _has_lists(folder: Path, task: str) -> bool:
    """Whether a folder has lists of a task, or of another one, which reading them says."""
    is_classified = (folder / CLASSES).is_file() and any(folder.glob("train.[ct][sx][vt]"))
    return is_classified or find_task(task).list_file(folder, "train").is_file()

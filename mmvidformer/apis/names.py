"""Names of the classes of a model."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from mmengine.config import Config
from mmengine.fileio import list_from_file
from torch import nn

from mmvidformer.checkpoints.labels import PREFIX, read_labels
from mmvidformer.config import leaf_datasets
from mmvidformer.data.table_numbers import read_number
from mmvidformer.data.tables import read_table
from mmvidformer.data.text import read_text
from mmvidformer.errors import UserError

# Columns of EPIC-Kitchens' lists of classes and of RULSTM's actions.csv.
IDS = ("id", "verb_id", "noun_id")
NAMES = ("key", "class_key", "action")
SPLITS = ("test", "val", "train")


def class_tasks(cfg: Config) -> dict[str, int]:
    """Number of classes of each task of a config's head; ``'class'`` if there is only one task."""
    head = cfg.model.get("cls_head") or {}
    if not head.get("tasks") and not head.get("num_classes"):
        raise UserError("the config's model must have a cls_head with num_classes or tasks")
    return dict(head.get("tasks") or {"class": head["num_classes"]})


def class_names(
    tasks: Mapping[str, int],
    chosen: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
    default: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
) -> dict[str, Sequence[str]]:
    """Class names of each task.

    A text file has one name per line, in the order of the classes. A csv file has a column of
    numbers (``id``, ``verb_id`` or ``noun_id``) and a column of names (``key``, ``class_key`` or
    ``action``), as ``EPIC_100_verb_classes.csv`` and ``actions.csv`` have.

    Args:
        tasks: Number of classes by task.
        chosen: Names by task; or files, as ``'verb=verbs.csv'``, for a single task the path alone.
        default: Names of a single task, or by task, if none are chosen. All others are numbers.

    Raises:
        FileNotFoundError: If a file does not exist.
        UserError: If a file belongs to no task, or there are not as many names as classes.
    """
    for task, count in tasks.items():
        if not isinstance(count, int) or count < 1:
            raise UserError(f"{task!r} must have a number of classes above 0, got {count!r}")
    names: dict[str, Sequence[str]] = {t: [*map(str, range(n))] for t, n in tasks.items()}
    chosen = chosen or (default if isinstance(default, Mapping) else None)
    if isinstance(chosen, Mapping):
        names.update(chosen)
    elif chosen:
        names.update(_read_file(file, tasks) for file in chosen)
    elif default and len(tasks) == 1:
        names = dict.fromkeys(tasks, default)
    for task, count in tasks.items():
        if len(names[task]) != count:
            raise UserError(f"task {task!r} has {count} classes, but {len(names[task])} names")
    return names


def known_names(
    cfg: Config, model: nn.Module | None = None
) -> Mapping[str, Sequence[str]] | Sequence[str] | None:
    """Class names of a single task: those of the checkpoint, of the config, or of its dataset.

    A config may have names by task. ``model`` is one of ``load_recognizer``, which has the names of
    the checkpoint. Names of checkpoint and datasets are skipped if they are not as many as classes.
    """
    datasets = [(cfg.get(f"{split}_dataloader") or {}).get("dataset") for split in SPLITS]
    leaves = [leaf for dataset in datasets if dataset for leaf in leaf_datasets(dataset)]
    of_checkpoint = getattr(model, "dataset_meta", {}).get("classes")
    of_config = cfg.get("class_names")
    if isinstance(of_config, Mapping):
        return of_config
    of_datasets = [(leaf.get("metainfo") or {}).get("classes") for leaf in leaves]
    count = next(iter(class_tasks(cfg).values()))
    for names in (of_checkpoint, of_config, *of_datasets):
        if isinstance(names, str):
            with suppress(FileNotFoundError):  # the data are not here
                # By MMEngine, labels:// are read only where the registry is imported.
                read = read_labels if names.startswith(PREFIX) else list_from_file
                names = read(names)
        is_list = isinstance(names, Sequence) and not isinstance(names, str) and len(names)
        if is_list and (names is of_config or len(names) == count):
            return [*map(str, names)]
    return None


def _read_file(file: str, tasks: Mapping[str, int]) -> tuple[str, list[str]]:
    task, equals, path = file.partition("=")
    if not equals and len(tasks) == 1:
        task, path = next(iter(tasks)), file
    if task not in tasks or not path:
        known = " ".join(f"{task}=FILE" for task in tasks)
        raise UserError(f"class names must be given as {known}, got {file!r}")
    if not path.lower().endswith(".csv"):
        return task, read_text(path).splitlines()
    table = read_table(path)
    number = next((column for column in IDS if column in table.columns), None)
    name = next((column for column in NAMES if column in table.columns), None)
    if number is None or name is None:
        raise UserError(f"{path} must have a column of {IDS} and one of {NAMES}")
    labels: dict[int, str] = {}
    for row, where in table.read():
        if not row[name]:
            raise UserError(f"{where}: there is no {name}")
        if labels.setdefault(read_number(row, number, where), row[name]) != row[name]:
            raise UserError(f"{where}: class {row[number]} has another name above")
    if sorted(labels) != list(range(len(labels))):
        raise UserError(f"{path}: column {number!r} must number the classes from 0 without gaps")
    return task, [labels[i] for i in range(len(labels))]

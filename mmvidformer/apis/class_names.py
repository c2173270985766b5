"""Names of classes, from text or csv files."""

import csv
from collections.abc import Mapping, Sequence

from mmvidformer.visualization import read_names

# Columns of the official lists of EPIC-Kitchens and of RULSTM's actions.csv.
IDS = ("id", "verb_id", "noun_id")
NAMES = ("key", "class_key", "action")


def read_class_names(files: Sequence[str], tasks: Mapping[str, int]) -> dict[str, list[str]]:
    """Read the names of each task's classes; numbers where no file is given.

    A text file has a name a line, in the order of the classes. A csv file has a column of numbers
    (one of ``IDS``) and one of names (one of ``NAMES``), as ``EPIC_100_verb_classes.csv`` and
    ``actions.csv``.

    Args:
        files: Paths, as ``'verb=verbs.csv'``; for a single task also the path alone.
        tasks: Number of classes by task.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a file is for no task, or has not the name of each class.
    """
    names = {task: [str(i) for i in range(count)] for task, count in tasks.items()}
    for file in files:
        task, equals, path = file.partition("=")
        if not equals and len(tasks) == 1:
            task, path = next(iter(tasks)), file
        if task not in tasks or not path:
            known = " ".join(f"{task}=FILE" for task in tasks)
            raise ValueError(f"names are given as {known}; got {file!r}")
        read = _read_csv if path.endswith(".csv") else read_names
        names[task] = read(path, tasks[task])
    return names


def _read_csv(path: str, count: int) -> list[str]:
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file, skipinitialspace=True)
        columns = [
            next((c for c in known if c in (rows.fieldnames or ())), None) for known in (IDS, NAMES)
        ]
        if None in columns:
            raise ValueError(
                f"{path} needs a column of {IDS} and one of {NAMES}; it has {rows.fieldnames}"
            )
        number, name = columns
        found = {row[number].strip(): row[name].strip() for row in rows}
    for i in range(count):
        if str(i) not in found:
            raise ValueError(f"{path} has no name of class {i} of {count}")
    return [found[str(i)] for i in range(count)]

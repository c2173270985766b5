"""Which rows of an export a task takes, and which task an export is for."""

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import replace

from mmvidformer.data.lists import say_count
from mmvidformer.data.tables import Row, Table
from mmvidformer.errors import UserError
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.table import TASKS

# Of a noun, the task that an export is for if nothing else is said.
TASK_OF_NOUN = {"box": "boxes", "segment": "segments", "moment": "moments"}


def guess_task(table: Table) -> Task:
    """Return the task of an export that takes most of its rows, or the last that columns fit."""
    if not table.importer:
        return next(task for task in reversed(TASKS.values()) if task.fits_columns(table.columns))
    counts = Counter(noun_of(row) for row, _ in table.read("video"))
    nouns = [noun for noun in TASK_OF_NOUN if counts[noun]]
    if nouns:
        return TASKS[TASK_OF_NOUN[max(nouns, key=counts.__getitem__)]]
    labels = defaultdict(set)
    for row, _ in table.read("video"):
        labels[row["video"]].add(row.get("label"))
    has_one_label = all(len(names) == 1 for names in labels.values())
    return TASKS["classes" if has_one_label else "labels"]


def name_task(table: Table, task: str | None) -> str:
    """Return the name of the task of annotations, and say what of an export is found.

    Raises:
        UserError: If no task is given, and the table is of no tool: columns fit several tasks.
    """
    if not task and not table.importer:
        nouns = guess_task(table).nouns
        fitting = [name for name, fit in TASKS.items() if fit.nouns == nouns]
        others = ", ".join(name for name in TASKS if name not in fitting)
        raise UserError(
            f"{table.file}: --task must be {' or '.join(fitting)} by its columns, "
            f"{', '.join(table.columns)}; others are {others}"
        )
    task = task or guess_task(table).name
    if table.importer:
        print(f"{table.file}: read as {table.importer}, --task {task}")
    return task


def select_rows(table: Table, nouns: Collection[str]) -> Table:
    """Return the rows of an export that a task takes (``Task.nouns``), and count the others.

    Of a table of text, all rows stay: what a task does not take is a mistake there.

    Raises:
        UserError: If an export has no such row.
    """
    if not table.importer:
        return table
    kept = []
    left_out = Counter(table.left_out)
    for (row, _), values in zip(table.read("video"), table.rows, strict=True):
        noun = noun_of(row)
        if noun in nouns:
            kept.append(values)
        else:
            left_out[noun or "video without annotations"] += 1
    selected = replace(table, rows=kept, left_out=left_out)
    if not any(noun_of(row) for row, _ in selected.read("video")):
        wanted = " or ".join(noun for noun in nouns if noun)
        others = say_left_out(selected)
        raise UserError(
            f"{table.file} has no {wanted}" + (f"; left out: {others}" if others else "")
        )
    return selected


def say_left_out(table: Table) -> str:
    """Name what of an export was left out, such as ``'14 polygons, 3 comments'``."""
    return ", ".join(say_count(count, noun) for noun, count in table.left_out.items())


def noun_of(row: Row) -> str:
    """Return what a row of an export states: box, moment, segment or label; empty of a video."""
    if row.get("x1"):
        return "box"
    if row.get("time"):
        return "moment"
    if row.get("start") or row.get("end"):
        return "moment" if _is_same(row.get("start"), row.get("end")) else "segment"
    return "label" if row.get("label") else ""


def _is_same(start: str | None, end: str | None) -> bool:
    try:
        return float(start or "") == float(end or "")
    except ValueError:  # which the task names
        return False

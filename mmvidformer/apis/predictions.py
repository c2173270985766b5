"""Predictions, and the names of their classes."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from mmengine.config import Config
from mmengine.fileio import list_from_file
from mmengine.structures import InstanceData
from torch import Tensor, nn
from torch.nn.functional import one_hot

from mmvidformer.config import leaf_datasets
from mmvidformer.datasets.csv_rows import read_rows, read_text

# Columns of EPIC-Kitchens' lists of classes and of RULSTM's actions.csv.
IDS = ("id", "verb_id", "noun_id")
NAMES = ("key", "class_key", "action")
SPLITS = ("test", "val", "train")


@dataclass(frozen=True)
class Prediction:
    """Class scores or values of a video, of a part of it, or of a moment of a stream.

    Attributes:
        scores: What the head gives, by task (``'class'`` if there is only one). For a video these
            are the scores that ``mmvidformer test`` evaluates.
        probabilities: The same as probabilities; empty for values, which have none.
        names: Names of the classes or values by task.
        source: Path of the file; None for arrays and streams.
        seconds: Begin and end of the part; None for a whole video.
        ahead: Seconds until the predicted action, if the model anticipates at known times.
        kind: ``'class'``; ``'labels'``: any number of classes, each with a probability of its own;
            ``'segment'``: a part that was found, of one class; or ``'value'``.
        so_far: Whether it is about what happens at the end of the part, as a recurrent model, which
            saw all of it, tells.
        box: Left, top, right and bottom, in shares of width and height, if it is about a box.
        static: Whether it is that of an earlier window, which hardly differs (``--skip-static``).
    """

    scores: dict[str, np.ndarray]
    probabilities: dict[str, np.ndarray]
    names: Mapping[str, Sequence[str]]
    source: str | None = None
    seconds: tuple[float, float] | None = None
    ahead: float | None = None
    kind: str = "class"
    box: tuple[float, ...] | None = None
    static: bool = False
    so_far: bool = False

    @property
    def start(self) -> float | None:
        """Begin of the part in seconds; None for a whole video."""
        return self.seconds and self.seconds[0]

    @property
    def end(self) -> float | None:
        """End of the part in seconds; None for a whole video."""
        return self.seconds and self.seconds[1]

    @property
    def moment(self) -> float:
        """What it is drawn at, in seconds: the middle of the part, or its end if ``so_far``."""
        if self.seconds is None:
            return 0.0
        return self.end if self.so_far else (self.start + self.end) / 2

    @property
    def values(self) -> dict[str, float]:
        """The values by name; empty for classes."""
        tasks = self.scores if self.kind == "value" else ()
        pairs = (zip(self.names[task], self.scores[task], strict=True) for task in tasks)
        return {name: float(value) for one in pairs for name, value in one}

    def top(self, k: int = 5, task: str | None = None) -> list[tuple[int, str, float]]:
        """The k most likely classes of a task (default: the first): (number, name, probability).

        Raises:
            ValueError: If the model predicts values.
        """
        if self.kind == "value":
            raise ValueError("the model predicts values, not classes")
        k = 1 if self.kind == "segment" else k
        task = next(iter(self.scores)) if task is None else task
        probabilities = self.probabilities[task]
        best = np.argsort(-probabilities, kind="stable")[:k]
        return [(int(i), self.names[task][i], float(probabilities[i])) for i in best]

    def text(self, k: int = 5) -> str:
        """The k most likely classes of each task in a line, as ``'left 97%, up 2%'``, or values."""
        if self.kind == "value":
            return ", ".join(f"{name} {value:.4g}" for name, value in self.values.items())
        texts = []
        for task in self.scores:
            top = ", ".join(f"{name} {p:.0%}" for _, name, p in self.top(k, task))
            texts.append(top if len(self.scores) == 1 else f"{task}: {top}")
        return "; ".join(texts)

    def record(self, k: int = 5) -> dict:
        """``source``, ``seconds``, and the k most likely classes by task or the values."""
        seconds = [round(x, 3) for x in self.seconds] if self.seconds else None
        where: dict[str, Any] = {"source": self.source, "seconds": seconds}
        where |= {"box": [round(x, 4) for x in self.box]} if self.box else {}
        where |= {"static": True} if self.static else {}
        where |= {} if self.ahead is None else {"ahead": self.ahead}
        if self.kind == "value":
            return {**where, "values": self.values}
        tops = {
            task: [{"class": i, "name": n, "score": round(p, 6)} for i, n, p in self.top(k, task)]
            for task in self.scores
        }
        return {**where, "predictions": tops}


def to_prediction(
    scores: Mapping[str, Tensor],
    names: Mapping[str, Sequence[str]],
    head: nn.Module,
    logits: bool = False,
    **where: object,
) -> Prediction:
    """Convert scores (classes,) of a head, by task, to a prediction.

    They are logits, or what the head makes of the views of a video: by its ``average_clips``
    probabilities, mean logits, or the logits (views, classes).
    """
    arrays = {task: value.detach().float().cpu() for task, value in scores.items()}
    kind = "labels" if getattr(head, "multi_class", False) else "class"
    kind = "value" if hasattr(head, "std") else kind
    probabilities = {}
    for task, value in arrays.items() if kind != "value" else ():
        if logits or head.average_clips != "prob":
            value = value.sigmoid() if kind == "labels" else value.softmax(dim=-1)
        probabilities[task] = (value.mean(dim=0) if value.dim() > 1 else value).numpy()
    found = {task: value.numpy() for task, value in arrays.items()}
    return Prediction(found, probabilities, names, kind=kind, **where)


def to_segment(
    found: InstanceData, names: Mapping[str, Sequence[str]], source: str | None = None
) -> Prediction:
    """Convert a segment of ``SegmentsHead``."""
    task, classes = next(iter(names.items()))
    row = (one_hot(found.labels[0].long(), len(classes)) * found.scores).numpy()
    start, end = found.segments[0].tolist()
    return Prediction({task: row}, {task: row}, names, source, (start, end), kind="segment")


def class_tasks(cfg: Config) -> dict[str, int]:
    """Number of classes of each task of a config's head; ``'class'`` if there is only one task."""
    head = cfg.model.get("cls_head") or {}
    if not head.get("tasks") and not head.get("num_classes"):
        raise ValueError("the config's model must have a cls_head with num_classes or tasks")
    return dict(head.get("tasks") or {"class": head["num_classes"]})


def class_names(
    tasks: Mapping[str, int],
    given: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
    default: Sequence[str] | None = None,
) -> dict[str, Sequence[str]]:
    """Class names of each task.

    A text file has one name per line, in the order of the classes. A csv file has a column of
    numbers (``id``, ``verb_id`` or ``noun_id``) and a column of names (``key``, ``class_key`` or
    ``action``), as ``EPIC_100_verb_classes.csv`` and ``actions.csv`` have.

    Args:
        tasks: Number of classes by task.
        given: Names by task; or files, as ``'verb=verbs.csv'``, for a single task the path alone.
        default: Names of a single task, if none are given. All other names are numbers.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If a file belongs to no task, or there are not as many names as classes.
    """
    names: dict[str, Sequence[str]] = {t: [*map(str, range(n))] for t, n in tasks.items()}
    if given:
        names.update(given if isinstance(given, Mapping) else (_read_file(f, tasks) for f in given))
    elif default and len(tasks) == 1:
        names = dict.fromkeys(tasks, default)
    for task, count in tasks.items():
        if len(names[task]) != count:
            raise ValueError(f"task {task!r} has {count} classes, but {len(names[task])} names")
    return names


def known_names(cfg: Config, model: nn.Module | None = None) -> Sequence[str] | None:
    """Class names of a single task: those of the checkpoint, of the config, or of its dataset.

    ``model`` is one of ``load_recognizer``, which has the names of the checkpoint. Names of
    checkpoint and datasets are skipped if there are not as many as classes.
    """
    datasets = [(cfg.get(f"{split}_dataloader") or {}).get("dataset") for split in SPLITS]
    leaves = [leaf for dataset in datasets if dataset for leaf in leaf_datasets(dataset)]
    own = getattr(model, "dataset_meta", {}).get("classes"), cfg.get("class_names")
    count = next(iter(class_tasks(cfg).values()))
    for names in (*own, *((leaf.get("metainfo") or {}).get("classes") for leaf in leaves)):
        if isinstance(names, str):
            with suppress(FileNotFoundError):  # the data are not here
                names = list_from_file(names)
        if names and (names is own[1] or not isinstance(names, str) and len(names) == count):
            return names
    return None


def _read_file(file: str, tasks: Mapping[str, int]) -> tuple[str, list[str]]:
    task, equals, path = file.partition("=")
    if not equals and len(tasks) == 1:
        task, path = next(iter(tasks)), file
    if task not in tasks or not path:
        known = " ".join(f"{task}=FILE" for task in tasks)
        raise ValueError(f"class names must be given as {known}, got {file!r}")
    if not path.endswith(".csv"):
        return task, read_text(path).splitlines()
    rows = [row for row, _ in read_rows(path)] or [{}]
    number, name = (next((c for c in known if c in rows[0]), None) for known in (IDS, NAMES))
    if number is None or name is None:
        raise ValueError(f"{path} must have a column of {IDS} and one of {NAMES}")
    found = {int(row[number]): row[name].strip() for row in rows}
    if sorted(found) != list(range(len(found))):
        raise ValueError(f"{path}: column {number!r} must number the classes from 0 without gaps")
    return task, [found[i] for i in range(len(found))]

"""Annotation files, line by line."""

import codecs
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmengine.config import Config

from mmvidformer.config import config_scope, leaf_datasets, type_name
from mmvidformer.datasets.class_subset import check_present, new_labels
from mmvidformer.datasets.decoding.errors import path_of
from mmvidformer.engine.preflight.classes import head_classes
from mmvidformer.engine.preflight.files import check_files, read_elsewhere
from mmvidformer.engine.preflight.problems import Problem
from mmvidformer.registry import DATASETS

VIDEO_LISTS = ("VideoDataset", "TiledVideoDataset", "RepeatAugDataset", "ClassSubsetDataset")
FRAME_LISTS = ("RawframeDataset",)
_NUMBER = re.compile("-?[0-9]+")


@dataclass(frozen=True)
class Line:
    """An entry of an annotation file.

    Args:
        where: File and line.
        name: Path without prefix.
        path: Path.
        labels: Its labels.
        key: What no other entry may share.
    """

    where: str
    name: str
    path: str
    labels: tuple[int, ...]
    key: tuple


def check_annotations(cfg: Config, dataset: Mapping) -> list[Problem]:
    """Check the annotation files of a data set, and that its files exist.

    Lists of videos and of folders of frames are read line by line here. Data sets of other kinds
    are built, since they name file and line themselves, and their labels are compared with the
    head's classes.
    """
    hook = cfg.get("default_hooks", {}).get("bad_videos") or {}
    by_hand = type_name(dataset) == "SafeDataset"  # which the hook leaves as it is
    policy = dataset if by_hand else {"on_bad_video": "resample", **hook} if hook else {}
    resample = policy.get("on_bad_video") == "resample"
    share = policy.get("max_bad_share", 0.05) if resample else 0.0
    problems = []
    for leaf in leaf_datasets(dataset):
        kind = type_name(leaf)
        prefix = leaf.get("data_prefix") or {}
        if not isinstance(prefix, Mapping):
            what = f"is {prefix!r}, a {type(prefix).__name__}"
            remedy = "Write data_prefix=dict(video=FOLDER), or img=FOLDER for frames."
            problems.append(Problem("dataset", f"data_prefix of {kind}", what, remedy))
            continue
        if kind in VIDEO_LISTS + FRAME_LISTS:
            problems += _check_list(cfg, leaf, kind, share)
        else:
            problems += _check_built(cfg, leaf, share)
    return problems


def _check_list(cfg: Config, dataset: Mapping, kind: str, share: float) -> list[Problem]:
    file = dataset.get("ann_file", "")
    if not os.path.isfile(file):
        return [_no_file(file)]
    unreadable = _no_text(file)
    if unreadable is not None:
        return [unreadable]
    lines: list[Line] = []
    columns: list[Problem] = []
    for parsed in _parse(dataset, kind):
        (lines if isinstance(parsed, Line) else columns).append(parsed)
    problems = _first(columns, "lines")
    if not lines and not columns:
        return [Problem("columns", file, "has no entry", "Give the list of the data's files.")]
    problems += _duplicates(lines)
    if kind == "ClassSubsetDataset":
        try:
            lines = _of_subset(dataset, lines)
        except (OSError, ValueError, KeyError) as error:
            return [*problems, _refused(file, kind, error)]
    classes = head_classes(cfg)
    if classes is not None:
        labels = [(line.where, line.labels) for line in lines]
        problems += _check_labels(labels, classes, dataset.get("multi_class", False))
    prefix = (dataset.get("data_prefix") or {}).get("img" if kind in FRAME_LISTS else "video") or ""
    if not read_elsewhere(dataset):
        names = [(line.name, line.path, line.where) for line in lines]
        problems += check_files(names, prefix, share)
    return problems


def _of_subset(dataset: Mapping, lines: Sequence[Line]) -> list[Line]:
    """Entries of the classes that are kept, under their new labels."""
    file = dataset["class_file"]
    labels = new_labels(file, dataset.get("label_map"))
    kept = [line for line in lines if line.labels[0] in labels]
    check_present(labels, (line.labels[0] for line in kept), file, dataset["ann_file"])
    return [
        replace(
            line,
            where=f"{line.where}, class {line.labels[0]} numbered anew by {file}",
            labels=(labels[line.labels[0]],),
        )
        for line in kept
    ]


def _no_file(file: str) -> Problem:
    if os.path.isdir(file):
        what = "is a folder, not an annotation file"
        return Problem("dataset", f"ann_file {file}", what, "Name the file in it.")
    parent = Path(file)
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    what = f"there is no such annotation file; the path exists up to {parent.resolve()}"
    return Problem("dataset", f"ann_file {file}", what, "Mend ann_file or the working folder.")


def _no_text(file: str) -> Problem | None:
    """What keeps a file from being read as the text that it seems to be."""
    content = Path(file).read_bytes()
    remedy = "Save it as UTF-8 without byte order mark."
    if content.startswith(codecs.BOM_UTF8):
        what = "begins with a byte order mark, which would belong to the first name"
        return Problem("columns", f"{file}, line 1", what, remedy)
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"byte {content[error.start]:#04x} is no UTF-8 text"
        return Problem("columns", f"{file}, line {line}", what, remedy)
    return None


def _parse(dataset: Mapping, kind: str) -> Iterator[Line | Problem]:
    """Entries, and problems of lines that are none."""
    file = dataset["ann_file"]
    frames = kind in FRAME_LISTS
    several = dataset.get("multi_class", False)
    delimiter = None if frames else dataset.get("delimiter", " ")
    numbers = 1 + frames + bool(dataset.get("with_offset"))
    form = "FOLDER " + "OFFSET " * (numbers == 3) + "FRAMES LABEL" if frames else "PATH LABEL"
    form = form.replace(" ", delimiter or " ")
    prefix = (dataset.get("data_prefix") or {}).get("img" if frames else "video") or ""
    with open(file, encoding="utf-8", newline="\n") as opened:  # as MMEngine splits it
        for number, text in enumerate(opened, start=1):
            where = f"{file}, line {number}"
            name, *rest = text.strip().split(delimiter)
            fits = len(rest) >= numbers if several else len(rest) == numbers
            if not text.strip():
                yield Problem("columns", where, "the line is empty", "Remove it.")
            elif not fits:
                found = f"{1 + len(rest)} columns in {text.strip()[:100]!r}, expected {form!r}"
                remedy = "Mend the line; for names with blanks separate by commas and give "
                yield Problem("columns", where, found, remedy + "the data set delimiter=','.")
            elif not all(map(_NUMBER.fullmatch, rest)):
                wrong = next(value for value in rest if not _NUMBER.fullmatch(value))
                what = f"{wrong[:50]!r} is no number, expected {form!r}"
                yield Problem("columns", where, what, "Give classes as numbers from 0 on.")
            elif frames and int(rest[numbers - 2]) < 1:
                what = f"{rest[numbers - 2]} frames"
                yield Problem("columns", where, what, "Remove the line or count the frames.")
            else:
                values = tuple(map(int, rest))
                key = (name, *values[: numbers - 1])
                path = os.path.join(prefix, name)
                yield Line(where, name, path, values[numbers - 1 :], key)


def _first(problems: Sequence[Problem], unit: str) -> list[Problem]:
    """The first of problems of one kind, which says how many there are."""
    if len(problems) < 2:
        return list(problems)
    one = problems[0]
    return [Problem(one.kind, one.where, f"{one.what}; {len(problems)} such {unit}", one.remedy)]


def _check_labels(
    labels: Sequence[tuple[str, tuple[int, ...]]], classes: tuple[int, ...], several: bool
) -> list[Problem]:
    """Compare (where, labels) with the head's classes, one for each task or one for all.

    With ``several`` a head of one task takes any number of labels.
    """
    problems = []
    for where, values in labels:
        if len(values) != len(classes) and not (several and len(classes) == 1):
            what = f"labels of a sample: {len(values)}, tasks of model.cls_head: {len(classes)}"
            return [Problem("labels", where, what, "Give the head one task for each label.")]
    for task, count in enumerate(classes):
        # One head may be given several labels of one kind.
        own = [
            (where, label)
            for where, values in labels
            for label in (values if len(classes) == 1 else values[task : task + 1])
        ]
        wrong = [(where, label) for where, label in own if not 0 <= label < count]
        if not wrong:
            continue
        where, label = wrong[0]
        highest, lowest = max(n for _, n in own), min(n for _, n in own)
        if highest == count and lowest == 1:
            remedy = "The labels seem to count from 1; subtract 1."
        elif highest >= count:
            remedy = f"The data need a head of {highest + 1} classes or more, or other labels."
        else:
            remedy = "Labels count from 0 on."
        name = "model.cls_head.num_classes" if len(classes) == 1 else f"task {task} of the head"
        what = f"label {label} is not in 0 to {count - 1} ({name} is {count})"
        problems.append(
            Problem("labels", where, f"{what}; {len(wrong)} of {len(own)} labels", remedy)
        )
    return problems


def _duplicates(lines: Sequence[Line]) -> list[Problem]:
    first: dict[tuple, Line] = {}
    same, other = [], []
    for line in lines:
        before = first.setdefault(line.key, line)
        if before is line:
            continue
        at = before.where.rpartition(" ")[2]
        if before.labels == line.labels:
            what = f"{line.name} stands in line {at} already"
            same.append(Problem("duplicates", line.where, what, "Remove one of the two."))
        else:
            labels = f"{_numbers(line.labels)}, in line {at} it has {_numbers(before.labels)}"
            what = f"{line.name} has label {labels}"
            other.append(Problem("duplicates", line.where, what, "Remove the wrong one."))
    return _first(same, "lines") + _first(other, "lines")


def _numbers(labels: tuple[int, ...]) -> str:
    return " ".join(map(str, labels))


def _check_built(cfg: Config, dataset: Mapping, share: float) -> list[Problem]:
    """Build a data set of another kind, let it complain, and look at what it has read."""
    kind = type_name(dataset)
    where = str(dataset.get("ann_file") or dataset.get("root") or kind)
    with config_scope(cfg):
        try:
            built = DATASETS.build({**dataset})
            built.full_init()
        except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
            return [_refused(where, kind, error)]
    if not dataset.get("ann_file"):  # it has listed what there is
        return []
    infos = [built.get_data_info(item) for item in range(len(built))]
    # Data sets read from lines say where; others, such as pickles, have entries.
    places = [info.get("where", f"{where}, entry {item}") for item, info in enumerate(infos, 1)]
    problems = _narrated_twice(infos, places)
    classes = head_classes(cfg)
    labels = [
        (place, tuple(map(int, _listed(info["label"]))))
        for place, info in zip(places, infos, strict=True)
        if info.get("label") is not None
    ]
    if classes is not None:
        problems += _check_labels(labels, classes, getattr(built, "multi_class", False))
    prefixes = list((dataset.get("data_prefix") or {}).values())
    prefix = prefixes[0] if len(prefixes) == 1 else ""
    files = [
        (os.path.relpath(path_of(info), prefix or "."), path_of(info), place)
        for place, info in zip(places, infos, strict=True)
    ]
    if not read_elsewhere(dataset) and files and not files[0][1].startswith("sample "):
        problems += check_files(files, prefix, share)
    return problems


def _refused(where: str, kind: str, error: Exception) -> Problem:
    """What a data set says itself."""
    told = str(error.args[0] if isinstance(error, KeyError) else error).rstrip(".")
    if "registry" in told:  # MMEngine's text goes on about how to register a class
        told = told.partition(". ")[0]
        remedy = "Mend the type, or name the module that has it in custom_imports."
        return Problem("dataset", where, told, remedy)
    if isinstance(error, KeyError):
        told = f"there is no {told}"
    return Problem("dataset", where, told, f"{kind} does not take it.")


def _narrated_twice(infos: Sequence[Mapping], places: Sequence[str]) -> list[Problem]:
    """Segments of EPIC-Kitchens under a name that another has."""
    first: dict[str, str] = {}
    twice = []
    for info, place in zip(infos, places, strict=True):
        name = info.get("narration_id")
        if name is not None and first.setdefault(name, place) != place:
            what = f"narration_id {name} stands in {first[name].rpartition(', ')[2]} already"
            twice.append(Problem("duplicates", place, what, "Remove one of the two."))
    return _first(twice, "lines")


def _listed(label: object) -> Sequence:
    return label if hasattr(label, "__len__") else (label,)

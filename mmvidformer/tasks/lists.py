"""Lists of your videos for other answers than one class: several classes, numbers, or frames."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from random import Random

from mmvidformer.datasets.csv_rows import read_rows, read_text
from mmvidformer.datasets.own_videos import (
    CLASSES,
    FILES,
    SPLITS,
    VideoLists,
    check_names,
    read_lists,
)
from mmvidformer.tasks.activitynet import read_activitynet
from mmvidformer.tasks.annotations import (
    BACKGROUND,
    OWN,
    group_spans,
    read_spans,
    read_values,
    read_video,
)
from mmvidformer.tasks.boxes import read_boxes
from mmvidformer.tasks.checks import REQUIRED, find_annotation_faults

TASKS = ("classes", "labels", "number", "frames", "segments", "boxes")
MOST_FAULTS = 20  # that an error names


def read_task_lists(folder: str | Path, task: str) -> VideoLists:
    """Read the lists that ``split_annotations`` or, for classes, ``write_lists`` writes.

    The names of the result are those of the classes, or of the values.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a line is wrong; names file and line.
    """
    if task in ("classes", "labels"):
        return read_lists(folder, multi_class=task == "labels")
    root = Path(folder).resolve()
    for name in ("train.csv", CLASSES)[: 1 if task == "number" else 2]:
        if not (root / name).is_file():
            raise FileNotFoundError(f"{root / name} does not exist; mmvidformer data list FILE.csv")
    names = () if task == "number" else tuple(read_text(root / CLASSES).splitlines())
    found: Mapping
    counts = dict.fromkeys(SPLITS, 0)
    for split in (one for one in SPLITS if (root / f"{one}.csv").is_file()):
        file = root / f"{split}.csv"
        if task == "boxes":
            found = read_boxes(file, len(names))
        elif task != "number":
            found = read_spans(file, overlap=task == "segments")
        else:
            own, found = read_values(file)
            names = names or own
            if found and own != names:
                raise ValueError(f"{file} must have the columns of train.csv, got {own}")
        counts[split] = len(found)
    if task == "segments":
        names = tuple(name for name in names if name != BACKGROUND)
    return VideoLists(root, names, counts, ",")


def split_annotations(
    file: str | Path,
    task: str,
    folder: str | Path,
    val: float = 0.15,
    test: float = 0.15,
    seed: int = 0,
    force: bool = False,
    check: bool = True,
) -> VideoLists:
    """Split a csv file of annotations by video, and write a list per split.

    The column ``split`` (train, val or test), if there is one, states the split; else it is drawn.
    Paths are relative to the folder of the file, and those of the lists to ``folder``.

    Args:
        file: Columns ``video`` and ``label`` for labels, one row for each label or names that are
            separated by semicolons; ``video`` and values for a number; ``video``, ``start``,
            ``end`` and ``label`` for frames and segments, or what ``read_activitynet`` reads, from
            which videos that are missing are left out; what ``read_boxes`` reads for boxes, with
            ``classes.txt`` beside it.
        task: A name of ``TASKS`` but ``'classes'``.
        folder: Folder to write to.
        val: Share of the videos for validation.
        test: Share for testing.
        seed: Random seed of the draw.
        force: Whether to overwrite lists, but never ``file``.
        check: Whether to refuse what ``find_annotation_faults`` finds. It looks into the videos of
            tasks with seconds.

    Raises:
        FileExistsError: If there are lists, and not ``force``, or ``file`` would be overwritten.
        ValueError: If a row is wrong; names file and line.
    """
    file, root = Path(file), Path(folder).resolve()
    names = [name.replace("txt", "csv") for name in FILES[:-1]]
    names += [*FILES] if task != "boxes" else []  # its classes.txt is given
    if file.resolve() in [root / name for name in names]:
        raise FileExistsError(f"a list would overwrite {file}; rename it or give --out")
    if (found := [name for name in names if (root / name).exists()]) and not force:
        raise FileExistsError(f"{root} has {', '.join(found)} already; --force overwrites them")
    given_classes = read_text(file.parent / CLASSES).splitlines() if task == "boxes" else []
    is_json = file.suffix == ".json"
    if is_json:
        rows, _ = read_activitynet(file, file.parent)
    elif task != "boxes":
        rows = list(read_rows(file, *REQUIRED[task]))
    if check:
        _check(file, task, given_classes)
    if task == "boxes":
        return _split_boxes(file, root, given_classes, val, test, seed)
    given: dict[str, str] = {}
    for row, where in rows:
        video, split = read_video(row, where), row.get("split") or ""
        if given.setdefault(video, split) != split:
            raise ValueError(f"{where}: {video} is in two splits")
    splits = _draw(given, val, test, seed)
    paths = {video: file.parent.resolve() / video for video in splits}
    paths = {v: p.relative_to(root) if p.is_relative_to(root) else p for v, p in paths.items()}
    if task == "labels":
        return _write_labels(rows, splits, {v: path.as_posix() for v, path in paths.items()}, root)
    classes: list[str] = []
    if task == "number":
        columns = ("video", *read_values(file)[0])
    else:
        columns = ("video", *OWN[2:])
        spans = chain(*group_spans(rows, overlap=task == "segments").values())
        classes = sorted({one.label for one in spans} - {BACKGROUND})
        classes += [BACKGROUND] if task == "frames" else []
    root.mkdir(parents=True, exist_ok=True)
    if task != "number":
        _write_lines(root / CLASSES, classes)
    for split in SPLITS:
        kept = (
            [paths[row["video"]].as_posix(), *(row[name] for name in columns[1:])]
            for row, _ in rows
            if splits[row["video"]] == split
        )
        _write_rows(root / f"{split}.csv", [columns, *kept])
    return read_task_lists(root, task)


def _check(file: Path, task: str, classes: Sequence[str]) -> None:
    """Raise a ``ValueError`` that names the faults of a file of annotations."""
    faults, _ = find_annotation_faults(file, file.parent, task, classes)
    if file.suffix == ".json":  # of which missing videos are left out
        faults = [fault for fault in faults if not fault.endswith("does not exist")]
    if faults:
        more = len(faults) - MOST_FAULTS
        shown = faults[:MOST_FAULTS] + ([f"and {more} more"] if more > 0 else [])
        what = f"{file} has {len(faults)} faults; --no-check does not look into the videos:"
        raise ValueError("\n".join([what, *shown]))


def _write_labels(
    rows: Sequence[tuple[dict, str]], splits: dict[str, str], paths: dict[str, str], root: Path
) -> VideoLists:
    """Write the lists of videos with several classes."""
    labels: dict[str, set[str]] = {video: set() for video in splits}
    for row, _ in rows:
        labels[row["video"]] |= {one.strip() for one in (row["label"] or "").split(";")} - {""}
    classes = sorted(set(chain(*labels.values())))
    check_names([*paths.values(), *classes])
    numbers = {name: number for number, name in enumerate(classes)}
    delimiter = "\t" if any(" " in path for path in paths.values()) else " "
    root.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        lines = (
            delimiter.join([paths[v], *map(str, sorted(numbers[name] for name in labels[v]))])
            for v in splits
            if splits[v] == split
        )
        _write_lines(root / f"{split}.txt", lines)
    _write_lines(root / CLASSES, classes)
    return read_task_lists(root, "labels")


def _split_boxes(
    file: Path, root: Path, classes: Sequence[str], val: float, test: float, seed: int
) -> VideoLists:
    """Split a file of boxes by video, and copy the names of its classes."""
    read_boxes(file, len(classes))
    rows = list(csv.reader(read_text(file).splitlines()))
    splits = _draw(dict.fromkeys((row[0] for row in rows), ""), val, test, seed)
    for split in SPLITS:
        _write_rows(root / f"{split}.csv", (row for row in rows if splits[row[0]] == split))
    _write_lines(root / CLASSES, classes)
    return read_task_lists(root, "boxes")


def _draw(given: dict[str, str], val: float, test: float, seed: int) -> dict[str, str]:
    """Return the split of each video: that which is given, else one that is drawn."""
    if min(val, test) < 0 or val + test >= 1:
        raise ValueError(f"val and test must be 0 or more and below 1 together, got {val}, {test}")
    if wrong := sorted({split for split in given.values() if split} - set(SPLITS)):
        raise ValueError(f"split must be train, val or test, got {wrong[0]!r}")
    videos = sorted(given)
    drawn = [video for video in videos if not given[video]]
    Random(seed).shuffle(drawn)
    names = ["val"] * round(len(drawn) * val) + ["test"] * round(len(drawn) * test)
    names += ["train"] * (len(drawn) - len(names))
    found = {**given, **dict(zip(drawn, names, strict=True))}
    if "train" not in found.values():
        raise ValueError("no video is for training")
    return {video: found[video] for video in videos}


def _write_lines(file: Path, lines: Iterable[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _write_rows(file: Path, rows: Iterable[Sequence]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows(rows)

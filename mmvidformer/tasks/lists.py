"""Lists of your videos for other answers than one class: several classes, numbers, or frames."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from random import Random

from av.error import FFmpegError

from mmvidformer.datasets.csv_rows import read_rows, read_text
from mmvidformer.datasets.decoding.readers import open_video
from mmvidformer.datasets.own_videos import (
    CLASSES,
    FILES,
    SPLITS,
    VideoLists,
    find_videos,
    read_lists,
)
from mmvidformer.tasks.annotations import (
    BACKGROUND,
    OWN,
    Span,
    read_float,
    read_span,
    read_spans,
    read_values,
    span_faults,
)
from mmvidformer.tasks.boxes import COLUMNS, read_box, read_boxes

TASKS = ("classes", "labels", "number", "frames", "segments", "boxes")
SUBSETS = {"training": "train", "validation": "val", "testing": "test"}  # of ActivityNet


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
) -> VideoLists:
    """Split a csv file of annotations by video, and write a list per split.

    The column ``split`` (train, val or test), if there is one, states the split; else it is drawn.
    Paths are relative to the folder of the file, and those of the lists to ``folder``.

    Args:
        file: Columns ``video`` and ``label`` for labels, one row for each label or names that are
            separated by semicolons; ``video`` and values for a number; ``video``, ``start``,
            ``end`` and ``label`` for frames and segments, or what ``read_activitynet`` reads; what
            ``read_boxes`` reads for boxes, with ``classes.txt`` beside it.
        task: A name of ``TASKS`` but ``'classes'``.
        folder: Folder to write to.
        val: Share of the videos for validation.
        test: Share for testing.
        seed: Random seed of the draw.
        force: Whether to overwrite lists.

    Raises:
        FileExistsError: If there are lists, and not ``force``.
        ValueError: If a row is wrong; names file and line.
    """
    file, root = Path(file), Path(folder).resolve()
    names = [name.replace("txt", "csv") for name in FILES[:-1]]
    names += [*FILES] if task != "boxes" else []  # its classes.txt is given
    if (found := [name for name in names if (root / name).exists()]) and not force:
        raise FileExistsError(f"{root} has {', '.join(found)} already; --force overwrites them")
    if task == "boxes":
        return _split_boxes(file, root, val, test, seed)
    if file.suffix == ".json":
        file = read_activitynet(file, root / f"{file.stem}.csv")
    rows = list(read_rows(file, "video", *(["label"] if task == "labels" else [])))
    given: dict[str, str] = {}
    for row, where in rows:
        split = row.get("split") or ""
        if given.setdefault(row["video"], split) != split:
            raise ValueError(f"{where}: {row['video']} is in two splits")
    splits = _draw(given, val, test, seed)
    paths = {video: file.parent.resolve() / video for video in splits}
    paths = {v: p.relative_to(root) if p.is_relative_to(root) else p for v, p in paths.items()}
    root.mkdir(parents=True, exist_ok=True)
    if task == "labels":
        labels: dict[str, set[str]] = {video: set() for video in splits}
        for row, _ in rows:
            labels[row["video"]] |= {one.strip() for one in (row["label"] or "").split(";")} - {""}
        classes = sorted(set(chain(*labels.values())))
        delimiter = "\t" if any(" " in str(path) for path in paths.values()) else " "
        for split in SPLITS:
            lines = (
                delimiter.join([str(paths[v]), *map(str, sorted(map(classes.index, labels[v])))])
                for v in splits
                if splits[v] == split
            )
            _write_lines(root / f"{split}.txt", lines)
        _write_lines(root / CLASSES, classes)
        return read_task_lists(root, task)
    if task == "number":
        columns = ("video", *read_values(file)[0])
    else:
        columns = ("video", *OWN[2:])
        spans = chain(*read_spans(file, overlap=task == "segments").values())
        classes = sorted({one.label for one in spans} - {BACKGROUND})
        _write_lines(root / CLASSES, [*classes, *([BACKGROUND] if task == "frames" else [])])
    for split in SPLITS:
        kept = (
            [paths[row["video"]].as_posix(), *(row[name] for name in columns[1:])]
            for row, _ in rows
            if splits[row["video"]] == split
        )
        _write_rows(root / f"{split}.csv", [columns, *kept])
    return read_task_lists(root, task)


def _split_boxes(file: Path, root: Path, val: float, test: float, seed: int) -> VideoLists:
    """Split a file of boxes by video, and copy the names of its classes."""
    rows = list(csv.reader(read_text(file).splitlines()))
    splits = _draw(dict.fromkeys((row[0] for row in rows if row), ""), val, test, seed)
    names = read_text(file.parent / CLASSES)
    for split in SPLITS:
        kept = (row for row in rows if row and splits[row[0]] == split)
        _write_rows(root / f"{split}.csv", kept)
    (root / CLASSES).write_text(names, encoding="utf-8")
    return read_task_lists(root, "boxes")


def read_activitynet(file: Path, out: Path) -> Path:
    """Write an annotation file in ActivityNet's format as csv, and return ``out``.

    ``database`` holds, by the name of a video, its ``subset`` and its ``annotations`` (``segment``
    in seconds, ``label``). Videos are files of that name, with or without ``v_`` before it, in the
    folder of the file or below. Those that are missing are left out.

    Raises:
        ValueError: If the file has another format, or no video is there.
    """
    found = _read_database(file)
    videos = {path.stem.removeprefix("v_"): path for path in find_videos(file.parent)}
    rows: list[tuple] = []
    for name, (split, spans) in found.items():
        if path := videos.get(name.removeprefix("v_")):
            rows += [(path.absolute(), *one[:3], split) for one in spans or [("", "", "")]]
    if not rows:
        raise ValueError(f"{file.parent} has none of the {len(found)} videos of {file.name}")
    _write_rows(out, [("video", "start", "end", "label", "split"), *rows])
    return out


def _read_database(file: Path) -> dict[str, tuple[str, list[Span]]]:
    """Read the split and the spans of each video of a file in ActivityNet's format."""
    try:
        return {
            name: (
                SUBSETS[one["subset"]],
                [Span(*a["segment"], a["label"], f"{file}, {name}") for a in one["annotations"]],
            )
            for name, one in json.loads(read_text(file))["database"].items()
        }
    except (ValueError, KeyError, TypeError) as error:
        what = f"{type(error).__name__} {error}"
        raise ValueError(f"{file} is not in ActivityNet's format: {what}") from error


def find_annotation_faults(
    file: str | Path, folder: str | Path, overlap: bool = False
) -> tuple[list[str], list[Path]]:
    """Find all that is wrong in a file of labels, numbers, spans or boxes, by file and line.

    Values that are no numbers, spans that end before they start, overlap or end after their video,
    boxes outside of the frame or the video, classes that are not in ``classes.txt`` beside the
    file, and missing videos, whose paths are relative to ``folder``.

    Returns:
        The faults, and the videos that exist.
    """
    file = Path(file)
    names = file.parent / CLASSES
    classes = read_text(names).splitlines() if names.is_file() else []
    header = read_text(file).partition("\n")[0].split(",")
    boxes = "video" not in header  # AVA's files have no header
    spans: dict[str, list[Span]] = {}
    faults: list[str] = []
    paths: dict[str, str] = {}
    with suppress(FileNotFoundError):  # each missing video is a fault
        paths = {one.stem.removeprefix("v_"): str(one.absolute()) for one in find_videos(folder)}
    if file.suffix == ".json":
        for name, (_, own) in _read_database(file).items():
            spans[paths.get(name.removeprefix("v_"), name)] = own
        rows = iter(())
    else:
        rows = read_rows(file, header=COLUMNS) if boxes else read_rows(file, "video")
    for row, where in rows:
        name = row["video"]
        own = spans.setdefault(paths.get(name.removeprefix("v_"), name) if boxes else name, [])
        try:
            if boxes:
                (_, second), *_ = read_box(row, where, len(classes))
                own.append(Span(second, second, "", where))
            elif "start" in row:
                own += (one := read_span(row, where))
                if one and classes and one[0].label not in ("", *classes):
                    raise ValueError(f"{where}: {one[0].label!r} is no class of {names}")
            else:
                for column in (one for one in row if one not in OWN):
                    read_float(row, column, where)
        except ValueError as error:
            faults.append(str(error))
    if file.suffix == ".json" or "start" in header:
        faults += span_faults({video: sorted(own) for video, own in spans.items()}, overlap)
    videos = []
    for video, own in spans.items():
        path = Path(folder, video)
        if not path.is_file():
            faults.append(f"{own[0].where if own else file}: video {path} does not exist")
            continue
        videos.append(path)
        with suppress(FFmpegError, ValueError):  # bad files are reported as such
            reader = open_video(str(path))
            seconds = len(reader) / reader.get_avg_fps()
            late = [one for one in own if one.end > seconds + 0.5]
            after = f"is after the end of {video}, at {seconds:.2f} s"
            faults += [f"{one.where}: {one.end:g} s {after}" for one in late]
    return faults, videos


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

"""Annotation files in ActivityNet's format."""

import json
from pathlib import Path

from mmvidformer.datasets.csv_rows import read_text
from mmvidformer.datasets.own_videos import find_named

SUBSETS = {"training": "train", "validation": "val", "testing": "test"}


def read_activitynet(file: Path, folder: Path) -> tuple[list[tuple[dict, str]], list[str]]:
    """Read an annotation file in ActivityNet's format.

    ``database`` holds, by the name of a video, its ``subset`` and its ``annotations`` (``segment``
    in seconds, ``label``). Videos are files of that name, with or without ``v_`` before it, in the
    folder or below.

    Returns:
        Rows of ``video``, ``start``, ``end``, ``label`` and ``split``, with their place in the
        file, as ``read_rows`` gives those of csv files; and the names of the videos without a file.

    Raises:
        ValueError: If the file has another format, no video is there, or two have the same name.
    """
    try:
        database = {
            name: (SUBSETS[video["subset"]], [_span(one) for one in video["annotations"]])
            for name, video in json.loads(read_text(file))["database"].items()
        }
    except (ValueError, KeyError, TypeError) as error:
        what = f"{type(error).__name__} {error}"
        raise ValueError(f"{file} is not in ActivityNet's format: {what}") from error
    paths = find_named(folder, database, prefix="v_")
    if not paths:
        raise ValueError(f"{folder} has none of the {len(database)} videos of {file.name}")
    rows = []
    for name, path in paths.items():
        split, spans = database[name]
        # A video without a span has a row, too.
        for start, end, label in spans or [("", "", "")]:
            row = dict(video=str(path.absolute()), start=start, end=end, label=label, split=split)
            rows.append((row, f"{file}, {name}"))
    return rows, [name for name in database if name not in paths]


def _span(annotation: dict) -> tuple[object, object, str]:
    start, end = annotation["segment"]
    return start, end, annotation["label"].strip()

"""Annotation files in ActivityNet's format."""

import json
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.data.folders import find_named
from mmvidformer.data.text import read_text
from mmvidformer.tasks.annotations import parse_spans
from mmvidformer.tasks.reading import Annotations


def parse_activitynet(file: Path, folder: Path, classes: Sequence[str] = ()) -> Annotations:
    """Read an annotation file in ActivityNet's format.

    ``database`` holds, by the name of a video, its ``subset`` and its ``annotations`` (``segment``
    in seconds, ``label``). Videos are files of that name, with or without ``v_`` before it, in the
    folder or below; those without a file are left out (``Annotations.missing``). The result is that
    of ``parse_spans``, with absolute paths.

    Raises:
        ValueError: If the file has another format, no video is there, or two have the same name.
    """
    try:
        database = {
            name: (video["subset"], list(map(_read_segment, video["annotations"])))
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
        split, segments = database[name]
        # A video without a segment has a row, too.
        for start, end, label in segments or [("", "", "")]:
            row = dict(video=str(path.absolute()), start=start, end=end, label=label, split=split)
            rows.append((row, f"{file}, {name}"))
    annotations = parse_spans(file, True, classes, rows)
    annotations.missing = [name for name in database if name not in paths]
    return annotations


def _read_segment(annotation: dict) -> tuple[object, object, str]:
    start, end = annotation["segment"]
    return start, end, annotation["label"].strip()

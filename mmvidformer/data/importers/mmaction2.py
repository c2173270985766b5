"""Lists of MMAction2's ``VideoDataset``: a path in each line, and the numbers of its classes.

``classes.txt`` beside a list names the classes; without it, they are called by their numbers. A
word of the name of the file, such as ``kinetics_val.txt``, states the split.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from mmvidformer.data.folders import is_video
from mmvidformer.data.importers.export import Export
from mmvidformer.data.list_folders import CLASSES
from mmvidformer.data.lists import LABEL, find_delimiter, read_list
from mmvidformer.data.splits import split_in_name
from mmvidformer.data.tables import Table
from mmvidformer.data.text import read_text
from mmvidformer.errors import UserError


def recognize(export: Export) -> bool:
    """Whether the first line of a text is the name of a video, and numbers."""
    first = export.head.partition("\n")[0].strip()
    path, *labels = first.split(find_delimiter(first))
    if not is_video(path) or "," in first and len(labels) > 1:  # which are boxes of AVA
        return False
    return bool(labels) and all(re.fullmatch(LABEL, label.strip()) for label in labels)


def read(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    """Yield a row of each class of each video."""
    split = split_in_name(export.path)
    for (video, label), place in open_list(export.path, export.folder).rows:
        yield {"video": video, "label": label, "split": split}, place


def open_list(path: Path, folder: Path) -> Table:
    """Return a row of each class of each video of a list, and one of a video without a class."""
    file = path.parent / CLASSES
    names = read_text(file).splitlines() if file.is_file() else None
    rows = []
    for number, line in enumerate(read_list(path), start=1):
        place = f"{path}, line {number}"
        labels = []
        for label in line.labels:
            if names is not None and not 0 <= label < len(names):
                raise UserError(f"{place}: label {label} has no name in {file}, of {len(names)}")
            labels.append(str(label) if names is None else names[label])
        rows += [([line.path, label], place) for label in labels or [""]]
    return Table(path, ["video", "label"], rows, folder)

"""Charades' csv: segments, which may overlap.

``Charades_v1_classes.txt`` beside it names the classes. Persons are groups. The split is a word of
the name of the file, ``Charades_v1_train.csv``.
"""

from collections.abc import Iterator

from mmvidformer.data.importers.export import Export, reading
from mmvidformer.data.splits import split_in_name
from mmvidformer.data.text import read_text

COLUMNS = ("id", "subject", "actions", "length")
NAMES = "Charades_v1_classes.txt"


def recognize(export: Export) -> bool:
    """Whether a table has the names of its columns."""
    return set(export.columns) >= {*COLUMNS}


def read(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    """Yield a row of each action, and one of a video without."""
    file, split = export.path.parent / NAMES, split_in_name(export.path)
    lines = read_text(file).splitlines() if file.is_file() else []
    names = {number: name for number, _, name in (line.partition(" ") for line in lines)}
    for row, place in export.table.read(*COLUMNS):
        cells = {"video": row["id"], "group": row["subject"], "split": split}
        if not row["actions"]:
            yield cells, place
        for action in filter(None, row["actions"].split(";")):
            with reading(place):
                label, start, end = action.split()
            yield {**cells, "start": start, "end": end, "label": names.get(label, label)}, place

"""EPIC-KITCHENS' csv: segments of narrated actions.

The label is the verb; ``--columns label=noun`` or ``label=narration`` choose another column.
Participants are groups. The split is a word of the name of the file, ``EPIC_100_validation.csv``.
"""

from collections.abc import Iterator

from mmvidformer.data.importers.export import Export
from mmvidformer.data.splits import split_in_name

COLUMNS = ("participant_id", "video_id", "start_timestamp", "stop_timestamp", "verb", "noun")


def recognize(export: Export) -> bool:
    """Whether a table has the names of its columns; the test set has no verbs."""
    return set(export.columns) >= {*COLUMNS}


def read(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    """Yield a row of each action."""
    split = split_in_name(export.path)
    for row, place in export.table.read(*COLUMNS, times=("start_timestamp", "stop_timestamp")):
        cells = {name: row[name] for name in ("verb", "noun", "narration") if name in row}
        times = {"start": row["start_timestamp"], "end": row["stop_timestamp"]}
        names = {"video": row["video_id"], "group": row["participant_id"], "split": split}
        yield {**names, **times, "label": row["verb"], **cells}, place

"""AVA's csv files of boxes, also those of AVA-Kinetics and Multi-Sports in its format.

They have no names of columns. A ``.pbtxt`` file beside them, such as AVA's own
``ava_action_list_v2.2.pbtxt``, names the classes. The split is a word of the name of the file:
``ava_train_v2.2.csv``.
"""

import re
from collections.abc import Iterator

from mmvidformer.data.importers.export import Export
from mmvidformer.data.splits import split_in_name
from mmvidformer.data.text import read_text
from mmvidformer.errors import UserError

COLUMNS = ("video", "time", "x1", "y1", "x2", "y2", "label", "track")
NAME = re.compile(r'\bname: "([^"]*)"')
NUMBER = re.compile(r"\b(?:label_id|id): ([0-9]+)")
NUMBER_OF_CLASS = 6


def recognize(export: Export) -> bool:
    """Whether the first row has a video, a time, four shares and a number of a class."""
    cells = export.head.partition("\n")[0].strip().split(",")
    if len(cells) not in (NUMBER_OF_CLASS + 1, len(COLUMNS)) or not _label_files(export):
        return False
    shares = [re.fullmatch(r"[01]?\.?[0-9]*", cell) for cell in cells[2:6]]
    return all(shares) and cells[NUMBER_OF_CLASS].isdigit()


def read(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    """Yield a row of each box and class, by name."""
    names, split = _read_names(export), split_in_name(export.path)
    for number, line in enumerate(export.text.splitlines(), start=1):
        cells = [cell.strip() for cell in line.split(",")]
        place = f"{export.path}, line {number}"
        if not any(cells):
            continue
        row = dict(zip(COLUMNS, cells, strict=False))
        if not row.get("x1") or row.get("label") in (None, "", "-1"):  # of SlowFast's negatives
            export.leave_out("unlabelled row")
            continue
        if row["label"] not in names:
            raise UserError(
                f"{place}: class {row['label']} has no name in {_label_files(export)[0]}"
            )
        yield {**row, "label": names[row["label"]], "split": split}, place


def _label_files(export: Export) -> list:
    if export.path.is_dir():
        return []
    return sorted(export.path.parent.glob("*.pbtxt"))


def _read_names(export: Export) -> dict[str, str]:
    """Return the names of the classes, by number as text."""
    text = read_text(_label_files(export)[0])
    return dict(zip(NUMBER.findall(text), NAME.findall(text), strict=True))

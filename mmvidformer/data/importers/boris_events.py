"""BORIS's exports of events, as csv or tsv: aggregated (a row per state) or tabular (start, stop).

They name the files of an observation, and in newer versions their lengths. Times are those of the
project. Checked with the exports in BORIS 73bdf077, tests/files.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from mmvidformer.data.importers.boris import MediaFiles, Rows
from mmvidformer.data.importers.export import Export
from mmvidformer.data.table_numbers import read_float
from mmvidformer.data.tables import Row, Table

AGGREGATED = ("Behavior", "Behavior type", "Start (s)", "Stop (s)")
TABULAR = ("Behavior", "Time")
NUMBERS = ("Start (s)", "Stop (s)", "Time", "Time offset (s)", "Total length")
PLAYER = re.compile(r"player #1:\s*([^|]*)")
FILE_COLUMNS = ("Media file name", "Media file", "Media file path")
TOLERANCE = 1.0  # seconds
SEVERAL_FILES = "event in one of several files (import the .boris project instead)"
SUBJECTS = ("No focal subject",)  # which is none


def recognize(export: Export) -> bool:
    """Whether it has the columns of one of the exports."""
    return _find_table(export) is not None


def read(export: Export) -> Rows:
    """Yield the states and points of each file."""
    table = _find_table(export)
    if table is None:
        return
    if _has(table.names, AGGREGATED):
        rows = table.read(*AGGREGATED, numbers=NUMBERS)
    else:
        rows = _pair_rows(export, table.read(*TABULAR, numbers=NUMBERS))
    for row, place in rows:
        if "NA" in (row["Start (s)"], row["Stop (s)"]):
            export.leave_out("state without an end")
            continue
        files = _find_files(export, row)
        if files is None:
            export.leave_out(SEVERAL_FILES)
            continue
        offset = float(row.get("Time offset (s)") or 0)
        start, end = (read_float(row, name, place) - offset for name in ("Start (s)", "Stop (s)"))
        subject = row.get("Subject", "")
        facts = {"label": row["Behavior"], "subject": "" if subject in SUBJECTS else subject}
        facts["modifiers"] = "|".join(
            value for name, value in row.items() if name and name.startswith("Modifier") and value
        )
        for name, times in files.parts(start, end):
            yield {"video": name, **times, **facts}, place


def _find_table(export: Export) -> Table | None:
    """Return the rows of events: of older tabular exports, those below a block of facts."""
    table = export.table
    if table is None:
        return None
    if _has(table.names, AGGREGATED) or _has(table.names, (*TABULAR, "Behavior type")):
        return table
    if not _has(table.names[:1], ["Observation id"]):
        return None
    for number, (values, _) in enumerate(table.rows):
        if _has(values, (*TABULAR, "Status")):
            return replace(table, names=values, rows=table.rows[number + 1 :])
    return None


def _has(names: Iterable[str], columns: Iterable[str]) -> bool:
    """Whether there are columns among the names, whose capitals do not count."""
    return {column.lower() for column in columns} <= {name.lower() for name in names}


def _pair_rows(export: Export, rows: Iterator[tuple[Row, str]]) -> Iterator[tuple[Row, str]]:
    """Yield a row for each START and its STOP, and for each POINT."""
    begun: dict[tuple, tuple[Row, str]] = {}
    for row, place in rows:
        status = row.get("Status") or row.get("Behavior type")
        names = [name for name in row if name and name.startswith(("Subject", "Modifier"))]
        state = (row.get("Observation id"), row["Behavior"], *(row[name] for name in names))
        if status == "START":
            begun[state] = {**row, "Start (s)": row["Time"]}, place
        elif status == "STOP" and state in begun:
            first, first_place = begun.pop(state)
            yield {**first, "Stop (s)": row["Time"]}, first_place
        elif status != "STOP":
            yield {**row, "Start (s)": row["Time"], "Stop (s)": row["Time"]}, place
    if begun:
        export.leave_out("state without an end", len(begun))


def _find_files(export: Export, row: Mapping[str, str]) -> MediaFiles | None:
    """Return the files of player 1; None if there are several of unknown lengths."""
    source = PLAYER.search(row.get("Source") or "")
    if source is None:
        return _find_file(export, row)
    names = [name.strip() for name in source[1].split(";") if name.strip()]
    lengths = (row.get("Media duration (s)") or "").partition("|")[0].split(";")
    if len(names) > 1 and len(lengths) != len(names):
        return None
    return MediaFiles.in_a_row(names, [float(length) for length in lengths if len(names) > 1])


def _find_file(export: Export, row: Mapping[str, str]) -> MediaFiles | None:
    """Return the file of an older export, if it is the only one: as long as all files together."""
    name = next((row[column] for column in FILE_COLUMNS if row.get(column)), None)
    if name is None:
        return None
    total, length = row.get("Total length") or "NA", export.duration(name)
    if total != "NA" and length is not None and float(total) > length + TOLERANCE:
        return None
    return MediaFiles([name], [0.0])

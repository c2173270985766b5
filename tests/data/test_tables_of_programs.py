"""Variants of one csv file, as spreadsheets, R and people write it: right, or refused by line."""

import io
import re
from pathlib import Path
from zipfile import ZipFile

import pytest

from mmvidformer.data.importers import open_annotations
from mmvidformer.tasks.table import find_task

PLAIN = """\
video,start,end,label
a.mp4,0.25,1.5,run
a.mp4,2,63.5,sit down
b c.mp4,0,90,run
"""
GERMAN = PLAIN.replace(",", ";").replace(".25", ",25").replace(".5", ",5")
SPANS = {
    "a.mp4": [(0.25, 1.5, "run"), (2.0, 63.5, "sit down")],
    "b c.mp4": [(0.0, 90.0, "run")],
}


def number_rows(text: str, separator: str) -> str:
    """As R does: row numbers, which have no name."""
    header, *rows = text.splitlines()
    numbered = [f"{number}{separator}{row}" for number, row in enumerate(rows, start=1)]
    return "\n".join([header, *numbered])


def write_times(text: str, form: str) -> str:
    """Write all times as mm:ss or hh:mm:ss, with a mark before the decimals."""

    def write(match: re.Match) -> str:
        seconds = float(match[0].replace(",", "."))
        minutes, rest = divmod(seconds, 60)
        time = f"{int(minutes):02d}:{rest:06.3f}"
        return (f"00:{time}" if form.startswith("h") else time).replace(".", form[-1])

    separator = text[len("video")]
    mark = "." if separator == "," else ","
    return re.sub(rf"(?<={separator})[0-9]+([{mark}][0-9]+)?(?={separator})", write, text)


RIGHT = {
    "plain": PLAIN,
    "decimal commas": GERMAN,
    "carriage returns": GERMAN.replace("\n", "\r"),
    "Excel's first line": "sep=;\r\n" + GERMAN.replace("\n", "\r\n"),
    "mark and first line": "\ufeffsep=;\r\n" + GERMAN.replace("\n", "\r\n"),
    "tabs": GERMAN.replace(";", "\t"),
    "UTF-16 without a mark": GERMAN.replace(";", "\t").encode("utf-16-le"),
    "UTF-16, big, without a mark": GERMAN.replace(";", "\t").encode("utf-16-be"),
    "empty columns": GERMAN.replace("\n", ";;\n"),
    "a separator at the end": PLAIN.replace("\n", ",\n"),
    "of rows only": PLAIN.replace("run\n", "run,\n"),
    "of the header only": PLAIN.replace("label\n", "label,\n"),
    "empty rows": f"\n;;;\n{GERMAN};;;\n;;;\n\n",
    "an empty column before": "".join(f",{line}" for line in PLAIN.splitlines(True)),
    "all in quotes": re.sub(r"[^,\n]+", r'"\g<0>"', PLAIN),
    "decimal commas in quotes": re.sub(r"([0-9]+)\.([0-9]+)", r'"\1,\2"', PLAIN),
    "line breaks in quotes": PLAIN.replace("label", "label,notes").replace(
        "1.5,run", '1.5,run,"first\nsecond, ""third"""'
    ),
    "a line break in the header": PLAIN.replace("start", '"start\n"'),
    "capitals and spaces": PLAIN.replace("video,start,end", "VIDEO,Start, End "),
    "mm:ss": write_times(PLAIN, "m."),
    "mm:ss,mmm": write_times(GERMAN, "m,"),
    "hh:mm:ss.mmm": write_times(PLAIN, "h."),
    "hh:mm:ss,mmm": write_times(GERMAN, "h,"),
    "thin spaces": GERMAN.replace("0,25;", "\u202f0,25\u00a0;"),
    "R, write.csv": number_rows(f",{PLAIN}", ","),
    "R, write.table": number_rows(PLAIN.replace(",", "\t"), "\t"),
    "pandas": number_rows(f"Unnamed: 0,{PLAIN}", ","),
    "drive letters": GERMAN.replace("a.mp4", r"C:\me\a.mp4").replace("b c", r"D:\b c"),
    "folders of Windows": GERMAN.replace("a.mp4", r".\a.mp4").replace("b c", r".\b c"),
    "a network": GERMAN.replace("a.mp4", r"\\nas\v\a.mp4").replace("b c", r"\\nas\v\b c"),
    "exponents": PLAIN.replace("0.25", "2.5E-01").replace("63.5", "6.35E+01"),
    "digits of Arabic": PLAIN.replace("0.25", "\u0660.\u0662\u0665"),
}
ROW = "a.mp4,0.25,1.5,run"
REFUSED = {
    "merged cells above": (f",Time,,\n{PLAIN}", "line 1 has no column video, start, end, label"),
    "a title": (f"May;;;\n{GERMAN}", r"line 1 has no column video.*only \['May'\]"),
    "a comment": (f"# by a tool\n{PLAIN}", "line 1 has no column video"),
    "no header": (PLAIN.partition("\n")[2], "line 1 has no column video"),
    "units in the header": (PLAIN.replace("start", "start (s)"), "line 1 has no column start"),
    "a sum below": (f"{GERMAN}Total;;;3\n", "line 5: start must be a number, got ''"),
    "a line break in a class": (PLAIN.replace("sit ", '"sit\n').replace("down", 'down"'), "line 4"),
    "AM": (PLAIN.replace("0.25", "12:00:01 AM"), "line 2: start .* got '12:00:01 AM'"),
    "a date": (PLAIN.replace("63.5", "03.06.2024"), "line 3: end .* got '03.06.2024'"),
    "a date with a time": (PLAIN.replace("63.5", "1900-01-00 00:01:03"), "line 3: end must"),
    "an ISO duration": (PLAIN.replace("63.5", "PT1M3.5S"), "line 3: end .* got 'PT1M3.5S'"),
    "thin thousands": (GERMAN.replace("63,5", "1\u202f063,5"), "line 3: end must be a number"),
    "Swiss thousands": (PLAIN.replace("63.5", "1'063.5"), "line 3: end must be a number"),
    "German thousands": (GERMAN.replace("63,5", "1.063,5"), "line 3: end must be a number"),
    "points and commas": (
        PLAIN.replace("63.5", '"1,063"'),
        "line 3, column end: 1,063 beside",
    ),
    "a unit": (PLAIN.replace("63.5", "63.5 s"), "line 3: end must be a number, got '63.5 s'"),
    "NA": (PLAIN.replace("63.5", "NA"), "line 3: end must be a number, got 'NA'"),
    "an error of Excel": (PLAIN.replace("63.5", "#VALUE!"), "line 3: end .* got '#VALUE!'"),
    "underscores": (PLAIN.replace("63.5", "6_3.5"), "line 3: end must be a number, got '6_3.5'"),
    "frames": (PLAIN.replace("63.5", "00:01:03:12"), "line 3: end must be a number"),
    "75 seconds": (PLAIN.replace("63.5", "00:75"), "line 3: end must be a number, got '00:75'"),
    "a minus of typesetters": (PLAIN.replace("0.25", "\u22121"), "line 2: start must be a number"),
    "spaces between": (PLAIN.replace(",", " "), "line 1 has no column video"),
    "another separator below": (
        PLAIN.replace(ROW, ROW.replace(",", ";")),
        "line 2: the first line has ',' between its columns, this one ';'",
    ),
    "too few values": (PLAIN.replace(",1.5,run", ""), "line 2: end must be a number, got ''"),
    "too many values": (PLAIN.replace("1.5,run", "1.5,run, fast"), "line 2: .*more values than"),
    "an open quote": (PLAIN.replace("run\na", '"run\na'), "line 2: unexpected end of data"),
    "a column twice": (PLAIN.replace("label", "label,Label"), "has the column 'label' twice"),
    "an old encoding": (PLAIN.replace("run", "\u8d70").encode("shift_jis"), "must be text"),
    "a byte of zero": (PLAIN.replace("run", "\0"), "bytes of zero"),
    "Excel 2003": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504), "is a spreadsheet; save it"),
    "nothing": ("", "is empty"),
}


def read(content: str | bytes, folder: Path) -> dict[str, list[tuple]]:
    for name in SPANS:
        (folder / name).touch()
    file = folder / "all.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    videos = find_task("frames").read(open_annotations(file)).check().videos
    return {video: [span[:3] for span in spans] for video, spans in videos.items()}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_certain_is_right(name: str, tmp_path: Path) -> None:
    assert read(RIGHT[name], tmp_path) == SPANS


@pytest.mark.parametrize("name", REFUSED)
def test_other_files_are_refused_by_line(name: str, tmp_path: Path) -> None:
    content, reason = REFUSED[name]
    with pytest.raises(ValueError, match=rf"all\.csv.*({reason})"):
        read(content, tmp_path)


@pytest.mark.parametrize("part", ["xl/workbook.xml", "content.xml", "Index/Document.iwa"])
def test_spreadsheets_are_named(part: str, tmp_path: Path) -> None:
    content = io.BytesIO()
    with ZipFile(content, "w") as archive:
        archive.writestr(part, "<x/>")
    with pytest.raises(ValueError, match=r"all\.csv is a spreadsheet; save it as csv"):
        read(content.getvalue(), tmp_path)

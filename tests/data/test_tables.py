"""Annotation files that are damaged, or of another kind or encoding, are named with the reason."""

from pathlib import Path

import numpy as np
import pytest

from mmvidformer.data.epic_kitchens import EpicKitchensDataset
from mmvidformer.data.table_numbers import read_float
from mmvidformer.data.tables import read_table
from mmvidformer.tasks.lists import read_task_lists

EPIC = """\
narration_id,participant_id,video_id,start_timestamp,stop_timestamp,start_frame,stop_frame,\
verb_class,noun_class
P01_01_0,P01,P01_01,00:00:00.14,00:00:03.37,8,202,3,3
P01_01_1,P01,P01_01,00:00:04.37,00:00:06.17,262,370,6,114
"""


def read_list(path: Path) -> None:
    """Read it as the training list of one's own videos."""
    for name, text in [("val.txt", ""), ("test.txt", ""), ("classes.txt", "cat\ndog\nx\n")]:
        (path.parent / name).write_text(text)
    path.rename(path.parent / "train.txt")
    read_task_lists(path.parent, "classes")


def read_epic(path: Path) -> None:
    EpicKitchensDataset(
        str(path), pipeline=[], data_prefix=dict(video="v"), name="{video_id}.MP4", lazy_init=True
    ).load_data_list()


READERS = {
    "list": ("a.mp4 0\nb.mp4 1\nc.mp4 2\n", read_list),
    "epic": (EPIC, read_epic),
}


def variants(text: str) -> list[bytes]:
    """The file cut short, with other encodings, and with characters changed, added or removed."""
    raw, rng, found = text.encode(), np.random.default_rng(0), [b"", b"\n", b"\0" * 9, b"\xff\xfe"]
    found += [text.encode(encoding) for encoding in ("utf-8-sig", "utf-16", "utf-32")]
    found += [text.replace("a", "é").encode("latin-1"), b"a" * 200_000, b"x," * 10_000]
    found += [raw[:length] for length in range(0, len(raw), 5)]
    marks = list(b"\0\n\r\t ,;\"'0123.-eZ\xff\xc3:/\\[]{}")
    for _ in range(100):
        changed = bytearray(raw)
        for place in rng.integers(len(raw), size=3):
            mark = bytes(rng.choice(marks, size=rng.integers(3)).tolist())
            changed[place : place + rng.integers(2)] = mark
        found.append(bytes(changed))
    return found


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_read_or_named(name: str, tmp_path: Path) -> None:
    text, read = READERS[name]
    refused = 0
    for number, content in enumerate(variants(text)):
        path = tmp_path / str(number) / "annotations.csv"
        path.parent.mkdir()
        path.write_bytes(content)
        try:
            read(path)
        except ValueError as error:
            assert str(path.parent) in str(error) and len(str(error)) < 600, content
            refused += 1
    assert refused > 20


@pytest.mark.parametrize(
    "content, message",
    [
        ("\u0142,b\n1,2\n".encode("cp1250"), r"x\.csv must be text in UTF-8: .*position 0"),
        ("\u043f\u0440\u044b,b\n".encode("cp1251"), r"x\.csv must be text in UTF-8"),
        ("\u00fc,b\n".encode("mac_roman"), r"x\.csv must be text in UTF-8"),
        ("a,b\n1,2\n".encode("utf-32"), r"x\.csv must be text in UTF-8"),
        (b"a,b\n1,2\n" + b"3" * 200_000, r"x\.csv, line 3: field larger than field limit"),
        (b'a,b\n1,2\n"3,4\n5,6\n', r"x\.csv, line 3: unexpected end of data"),
        (b"a,c\n1,2\n", r"x\.csv, line 1 has no column b, only \['a', 'c'\]"),
        (b"a,b,A\n1,2,3\n", r"x\.csv has the column 'a' twice"),
        (b'a,b\n"1,250",2\n', r"x\.csv, line 2, column a: 1,250: the comma may separate"),
        (b"a;b\n0,5;2\n1.250;3\n", r"x\.csv, line 3, column a: 1\.250 beside 0,5: one has"),
    ],
)
def test_reasons(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(read_table(tmp_path / "x.csv").read("a", "b", times=("a",)))


TABLE = [
    "Video , Start,END,label,,",
    "\u00fc 1.mp4,0.25,1:02:03.5,a b,,",
    "b.mp4,00:04,5,c,,",
    ",,,,,",
]


def with_commas(lines: list[str], separator: str) -> str:
    """The table as Excel writes it in Germany."""
    return "\r\n".join(line.replace(",", separator).replace(".5", ",5") for line in lines)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"]
)
@pytest.mark.parametrize(
    "text",
    [
        "\n".join(TABLE),
        "\r\n".join(TABLE) + "\r\n\r\n",
        "\r".join(TABLE),
        "\t".join("\n".join(TABLE).split(",")),
        with_commas(TABLE, ";").replace("0.25", "0,25"),
        with_commas(TABLE, "\t").replace("0.25", "0,25"),
        "sep=;\n" + "\n".join(TABLE).replace(",", ";"),
        "\n".join(TABLE).replace("0.25", '"0,25"').replace("c,", '"c",'),
        "\n".join(f"{number or ''},{line}" for number, line in enumerate(TABLE[:3])),
    ],
    ids=["plain", "crlf", "mac", "tab", "semicolon", "unicode-text", "sep", "quotes", "pandas"],
)
def test_tables_of_programs(text: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode(encoding))
    columns = ("video", "start", "end", "label")
    rows = [row for row, _ in read_table(path).read(*columns, times=("start", "end"))]
    first = dict(video="\u00fc 1.mp4", start="0.25", end="3723.5", label="a b")
    assert rows == [first, dict(video="b.mp4", start="4", end="5", label="c")]
    assert read_table(path).columns == [*columns]


def test_thousands_stay_for_the_reader_to_refuse(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a;b\n1.234,5;x\n1\u00a0234;y\n00:00:04:12;z\n")
    for row, place in read_table(path).read("a", times=("a",)):
        with pytest.raises(ValueError, match="a must be a number"):
            read_float(row, "a", place)


def test_rows_with_a_value(tmp_path) -> None:
    """Of one column any of its values, of several columns all of them."""
    file = tmp_path / "a.csv"
    file.write_text("video,tier,who\na,feed,me\nb,sing,me\nc,feed,you\nd,rest,me\ne\n")
    for pairs, videos, left_out in (
        ([("tier", "feed")], "ac", {"row of another tier": 3}),
        ([("tier", "feed"), ("tier", "sing")], "abc", {"row of another tier": 2}),
        (
            [("who", "me"), ("tier", "feed")],
            "a",
            {"row of another who": 2, "row of another tier": 2},
        ),
    ):
        table = read_table(file).select(pairs)
        assert "".join(row["video"] for row, _ in table.read("video")) == videos
        assert table.left_out == left_out
    with pytest.raises(ValueError, match="no column 'layer', only .'video', 'tier', 'who'"):
        read_table(file).select([("layer", "x")])
    with pytest.raises(ValueError, match="no row with tier 'fed', only 'feed', 'sing', 'rest'"):
        read_table(file).select([("tier", "fed")])

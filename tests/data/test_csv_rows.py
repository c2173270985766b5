"""Annotation files that are damaged, or of another kind or encoding, are named with the reason."""

from pathlib import Path

import numpy as np
import pytest

from mmvidformer.data.csv_rows import read_rows
from mmvidformer.data.epic_kitchens import EpicKitchensDataset
from mmvidformer.data.own_videos import read_lists

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
    read_lists(path.parent)


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
        ("ä,b\n1,2\n".encode("latin-1"), r"x\.csv must be text in UTF-8: .*position 0"),
        (b"a,b\n1,2\n" + b"3" * 200_000, r"x\.csv, line 3: field larger than field limit"),
        (b"a,c\n1,2\n", r"x\.csv has no column b, only \['a', 'c'\]"),
    ],
)
def test_reasons(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(read_rows(tmp_path / "x.csv", "a", "b"))


def test_a_byte_order_mark_and_blanks_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("\ufeffa, b\r\n1, 2\r\n", encoding="utf-8", newline="")
    ((row, where),) = read_rows(tmp_path / "x.csv", "a", "b")
    assert row == {"a": "1", "b": "2"} and where.endswith("x.csv, line 2")

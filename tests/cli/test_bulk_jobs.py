"""Processes of bulk commands that do not begin, and parts that are written."""

import os
from pathlib import Path
from typing import Any

import pytest

from mmvidformer.apis.bulk.reading import Clip, Unread
from mmvidformer.apis.bulk.run import Job, answer_videos
from mmvidformer.storage import parts
from mmvidformer.storage.parts import Answer
from tests.cli.test_hostile_videos import EndOrHang


class ReadsByItself:
    """A model that reads videos itself, as those of steps, segments and boxes."""

    read_clips, columns, check = Unread(), {}, None

    def answer(self, clips: list[Clip]) -> list[list[dict]]:
        for clip in clips:
            name = Path(clip.sample["source"]).name
            if name == "bug":
                raise TypeError("no such thing")
            EndOrHang().transform(dict(filename=clip.sample["source"]))
        return [[dict(process=os.getpid())] for _ in clips]


def load_model(device: str | None) -> ReadsByItself:
    return ReadsByItself()


def test_a_model_that_reads_by_itself_is_started_again(tmp_path) -> None:
    names = ["a", "kill", "b", "memory", "once", "c", "bug", "d"]
    videos = [(name, str(tmp_path / name)) for name in names]
    job = Job(load_model, 3)
    answers = {}
    for ready in answer_videos(job, load_model(None), videos, workers=2):
        answers |= {answer.name: answer for answer in ready}
    assert answers.keys() == {*names}
    errors = {name: answer.error for name, answer in answers.items() if answer.error}
    assert errors == {
        "kill": "it ended the process that read it (SIGKILL)",
        "memory": "MemoryError: Unable to allocate 2.20 TiB",
        "bug": "TypeError: no such thing",
    }
    processes = {answer.rows[0]["process"] for answer in answers.values() if answer.rows}
    assert 2 <= len(processes) <= 4 and os.getpid() not in processes


def load_nothing(device: str | None) -> ReadsByItself:
    os._exit(3)


def test_a_process_that_does_not_begin_is_an_error() -> None:
    answers = answer_videos(Job(load_nothing, 1), ReadsByItself(), [("a", "a")], workers=1)
    with pytest.raises(ChildProcessError, match=r"end before they begin \(exit status 3\)"):
        list(answers)


class Recorded(parts.PartTable):
    """A table that keeps what is written."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.parts: list[list[str]] = []

    def _read(self) -> bool:
        return False

    def missing(self, retry: bool) -> list[str]:
        return [*self.names]

    def failed(self) -> dict[str, str]:
        return {}

    def write_part(self, answers: list[Answer]) -> None:
        self.parts.append([answer.name for answer in answers])


def test_a_part_ends_after_videos_or_rows_or_a_minute(monkeypatch, tmp_path) -> None:
    now = 0.0
    monkeypatch.setattr(parts.time, "monotonic", lambda: now)
    monkeypatch.setattr(parts, "MOST_ROWS", 10)
    names = [*"abcdefghijk"]
    table = Recorded(str(tmp_path), {}, names, 3)
    table.begin(names)

    def add(name: str, rows: int = 1) -> None:
        table.append(Answer(name, [{}] * rows))

    for name in "acd":
        add(name)
    assert table.parts == []
    add("b")  # of the three that follow each other one was missing
    assert table.parts == [["a", "b", "c"]]
    now = 59.0
    table.write_due()
    assert table.parts[1:] == []
    add("g")
    now = 61.0
    table.write_due()
    assert table.parts[1:] == [["d", "g"]]
    add("f", rows=9)
    assert table.parts[2:] == []
    add("h")
    assert table.parts[2:] == [["f", "h"]]
    for name in "kije":
        add(name)
    assert table.parts[3:] == [["e", "i", "j"]]
    table.end()
    table.end()
    assert table.parts[4:] == [["k"]]
    assert sorted(sum(table.parts, [])) == names

"""Outputs: what they share, and subtitles as FFmpeg reads them."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from examples.markdown_table import MarkdownTable
from mmvidformer.apis import Prediction
from mmvidformer.cli.demo_options import make_parser
from mmvidformer.sinks import SINKS, Output
from mmvidformer.sinks.base import SinkOptions
from mmvidformer.sinks.group import Sinks
from mmvidformer.sinks.subtitles import Subtitles
from mmvidformer.tasks.table import TASKS

NAMES = {"class": ["left", "<b>& right"]}
RIGHTS = (0.25, 1.0, 0.875)


def windows(video: str = "x.mp4") -> list[Prediction]:
    """Windows of 2 s every second, with the probability of the second class."""
    shares = [np.array([1 - right, right]) for right in RIGHTS]
    return [
        Prediction(
            {"class": share},
            {"class": share},
            NAMES,
            video,
            (start, start + 2),
            shot=0,
            task=TASKS["classes"],
        )
        for start, share in enumerate(shares)
    ]


def write(name: str, target: Path, predictions: list[Prediction]) -> None:
    with SINKS[name].load()(target, SinkOptions()) as sink:
        for prediction in predictions:
            sink.append(prediction)


def test_json_and_csv_have_the_same_rows(tmp_path) -> None:
    write("json", tmp_path / "a.jsonl", windows())
    write("windows", tmp_path / "a.csv", windows())
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    with (tmp_path / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    for line, row in zip(lines, rows, strict=True):
        best = line.pop("top")
        assert row == {name: str(cell) for name, cell in line.items()}
        assert best[0] == {"label": line["label"], "score": line["score"]}


@pytest.mark.parametrize("suffix", [".srt", ".vtt"])
def test_subtitles_are_read_by_ffmpeg(suffix, tmp_path) -> None:
    file = tmp_path / f"a{suffix}"
    write("subtitles", file, windows())
    right = "&lt;b&gt;&amp; right 94%" if suffix == ".vtt" else "<b>& right 94%"
    # They meet between the centers of two windows.
    assert read_cues(file) == [(0, 1.5, "left 75%"), (1.5, 2.5, right)]


def test_subtitles_of_moments_and_of_persons(tmp_path) -> None:
    """A moment is shown for a second; each person has segments."""
    shares = {"class": np.array([0.75, 0.25])}
    moment = Prediction(shares, shares, NAMES, "x.mp4", (2, 2), task=TASKS["moments"])
    write("subtitles", tmp_path / "a.srt", [moment])
    assert read_cues(tmp_path / "a.srt") == [(2, 1, "left 75%")]
    boxes = [
        replace(moment, seconds=(n, n), box=(0, 0, 1, 1), track=track, task=TASKS["boxes"])
        for n in range(3)
        for track in (1, 2)
    ]
    write("subtitles", tmp_path / "b.srt", boxes)
    assert read_cues(tmp_path / "b.srt") == [
        (0, 2, "person 1: left 75%"),
        (0, 2, "person 2: left 75%"),
    ]


def read_cues(file: Path) -> list[tuple[float, float, str]]:
    """Start, duration and text of each cue, as FFmpeg reads them."""
    with av.open(str(file)) as opened:
        (stream,) = opened.streams
        packets = [packet for packet in opened.demux(stream) if packet.size]
        return [
            (float(x.pts * x.time_base), float(x.duration * x.time_base), bytes(x).decode())
            for x in packets
        ]


def test_subtitles_are_of_one_video(tmp_path) -> None:
    with Subtitles(tmp_path / "a.srt", SinkOptions()) as sink:
        sink.append(windows()[0])
        with pytest.raises(ValueError, match="has the subtitles of x.mp4; use one video"):
            sink.append(windows("y.mp4")[0])
    with pytest.raises(ValueError, match=r"subtitles are .srt or .vtt, got .*a.txt"):
        Subtitles(tmp_path / "a.txt", SinkOptions())


def test_no_output_writes_over_another_file(tmp_path) -> None:
    for name in ("json", "csv", "subtitles"):
        target = tmp_path / f"{name}.srt"
        target.write_text("mine")
        with pytest.raises(FileExistsError, match="exists already"):
            SINKS[name].load()(target, SinkOptions())
        assert target.read_text() == "mine"


def test_the_output_of_the_guide(tmp_path, monkeypatch) -> None:
    """``docs/extending.md``: in the table of outputs, it is an option of the demo."""
    output = Output("examples.markdown_table:MarkdownTable", "table of Markdown")
    monkeypatch.setitem(SINKS, "markdown", output)
    target = tmp_path / "a.md"
    write("markdown", target, windows())
    assert target.read_text().splitlines() == [
        "| video | start | end | shot | label | score |",
        "| --- | --- | --- | --- | --- | --- |",
        "| x.mp4 | 0.0 | 2.0 | 0 | left | 0.75 |",
        "| x.mp4 | 1.0 | 3.0 | 0 | <b>& right | 1.0 |",
        "| x.mp4 | 2.0 | 4.0 | 0 | <b>& right | 0.875 |",
    ]
    with pytest.raises(FileExistsError, match="a.md exists already"):
        write("markdown", target, windows())
    assert "--markdown PATH" in make_parser(None).format_help()


class Broken(MarkdownTable):
    """An output whose disk is full."""

    def append(self, prediction: Prediction) -> None:
        raise OSError(28, "No space left on device")


def test_an_output_with_an_error_is_no_bad_video(tmp_path) -> None:
    """It ends the command."""
    with Sinks([(Broken, tmp_path / "a.md")], SinkOptions()) as sinks:
        with pytest.raises(OSError, match="No space left"):
            sinks.append(windows()[0])
        assert not sinks.failed

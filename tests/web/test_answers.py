"""What the page answers to a video, and which videos it takes."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmvidformer.apis import Prediction, Recognizer
from mmvidformer.apis.detector import Person
from mmvidformer.config.fragments import merge
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.engine.offer_options import Limits
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.sinks.base import SinkOptions
from mmvidformer.sinks.segments import SegmentsCsv
from mmvidformer.tasks.classification import Classification
from mmvidformer.tasks.multi_label import MultiLabel
from mmvidformer.tasks.stated_boxes import StatedBoxes
from mmvidformer.tasks.table import find_task
from mmvidformer.video.readers import READERS
from mmvidformer.video.video import Video
from mmvidformer.video.writer import VideoOutput
from mmvidformer.web.answers import Answer, answer_page
from mmvidformer.web.limits import MAX_PIXELS, check_video


def write(path: Path, frames: int, fps: float = 10) -> Path:
    """Write a video of 64 x 32 pixels."""
    with VideoOutput(path, fps) as output:
        for number in range(frames):
            output.add(np.full((32, 64, 3), 5 * number % 255, np.uint8))
    return path


def test_what_the_page_shows_of_values_and_segments() -> None:
    names = {"class": ["a", "b"]}
    rows = [{"class": np.array(row)} for row in ([0.5, 0.0], [0.25, 1.0])]

    def shown(name: str, with_probabilities: bool = True) -> dict | str:
        task = find_task(name)
        found = [Prediction(row, row if with_probabilities else {}, names, task=task)
                 for row in rows]  # fmt: skip
        return task.summary(found, k=5)

    assert shown("number", with_probabilities=False) == "a 0.375, b 0.5"
    assert shown("segments") == shown("boxes") == {"b": 1.0, "a": 0.5}
    assert shown("classes") == {"b": 0.5, "a": 0.375}


def test_classes_of_like_shares_are_no_headline() -> None:
    close = {"b": 0.375, "a": 0.38, "c": 0.1}
    assert Classification().headline(close) == "unsure: a 38% or b 38%"
    assert MultiLabel().headline(close) == "a 38%"
    assert Classification().headline({"a": 0.5, "b": 0.25}) == "a 50%"
    assert Classification().headline({"a": 1.0}) == "a 100%"
    assert MultiLabel().headline("a 0.375, b 0.5") == "a 0.375, b 0.5"


def test_classes_are_the_mean_of_the_windows() -> None:
    names = {"verb": ["cut", "mix"], "noun": ["egg", "pan"]}
    windows = [
        Prediction(
            {}, {"verb": np.array(verb), "noun": np.array(noun)}, names, task=Classification()
        )
        for verb, noun in (([0.5, 0.5], [0.25, 0.75]), ([0.25, 0.75], [0.75, 0.25]))
    ]
    found = find_task("classes").summary(windows, k=1)
    assert found == {"verb: mix": 0.625, "noun: egg": 0.5}


def test_only_videos_within_the_limits_are_accepted(tmp_path: Path, monkeypatch) -> None:
    video = str(write(tmp_path / "two_seconds.mp4", frames=20))
    monkeypatch.setattr(READERS["pyav"], "decode", None)  # nothing is decoded
    assert check_video(video, Limits(1, 2)) == pytest.approx(2)
    with pytest.raises(ValueError, match="at most 0.0001 MB, got 0.0 MB"):
        check_video(video, Limits(1e-4, 2))
    with pytest.raises(ValueError, match="at most 1.9 s, got 2.0 s"):
        check_video(video, Limits(1, 1.9))
    monkeypatch.setattr("mmvidformer.web.limits.MAX_PIXELS", 2047)
    with pytest.raises(ValueError, match="at most 2047 pixels, got 64x32"):
        check_video(video, Limits(1, 2))
    (tmp_path / "damaged.mp4").write_bytes(Path(video).read_bytes()[:500])
    with pytest.raises(ValueError, match="damaged.mp4: it ends too early"):
        check_video(str(tmp_path / "damaged.mp4"), Limits(1, 2))
    (tmp_path / "empty.mp4").touch()
    with pytest.raises(ValueError, match="empty.mp4: the file is empty"):
        check_video(str(tmp_path / "empty.mp4"), Limits(1, 2))


def test_frames_times_pixels_are_limited(tmp_path: Path, monkeypatch) -> None:
    """Of a video at 1000 frames a second, one second may take long to decode."""
    fast = str(write(tmp_path / "fast.mp4", frames=150, fps=1000))
    monkeypatch.setattr(READERS["pyav"], "decode", None)  # nothing is decoded
    assert check_video(fast, Limits(1, 2.5)) == pytest.approx(0.15)
    with pytest.raises(ValueError, match="64 x 32 pixels must have at most 120 frames, got 150"):
        check_video(fast, Limits(1, 2))
    monkeypatch.setattr("mmvidformer.web.limits.FULL_HD", 1024)
    with pytest.raises(ValueError, match="64 x 32 pixels must have at most 75 frames, got 150"):
        check_video(fast, Limits(1, 2.5))


def answers(task: str, folder: Path, video: Path) -> tuple[Recognizer, Iterator]:
    """A model of a task with random weights as the page has it, and what the page answers."""
    cfg = Config.fromfile(Path(__file__).parents[1] / "cli" / "tiny_vivit.py")
    cfg.model.backbone.update(scheme="spacetime", temporal_depth=4, stem=dict(tubelet=(2, 8, 8)))
    merge(cfg, find_task(task).fragment(cfg, VideoLists(folder, ("walk", "sit"), {}, ",")))
    set_video_backend(cfg, "pyav", max_pixels=MAX_PIXELS)
    torch.manual_seed(0)
    recognizer = Recognizer(cfg, None, clips=1)
    parts = answer_page(recognizer, Limits(), video, str(folder))
    return recognizer, (part for part in parts if isinstance(part, Answer))


def test_a_model_of_boxes_shows_persons(tiny_videos, tmp_path, monkeypatch) -> None:
    where = (0.5, 0.25, 1.0, 1.0)
    looks = iter([[], [Person(where)], []])  # at 0, 1 and 2 s, since the video is so short
    monkeypatch.setattr("mmvidformer.web.answers.MOST_MOMENTS", 2)
    monkeypatch.setattr(
        "mmvidformer.apis.parts.load_detector", lambda _: lambda *frame: next(looks)
    )
    video = tiny_videos.root / "val_1.mp4"  # 24 green frames of 64 x 32 pixels, 2 s
    recognizer, (found, last) = answers("boxes", tmp_path, video)
    (box,) = recognizer.timeline(video, boxes=[StatedBoxes(1, [where], [None])])
    assert found.table["headers"][:7] == ["video", "start", "end", "x1", "y1", "x2", "y2"]
    assert found.table["data"][0][:7] == ["val_1.mp4", "1.0", "1.0", "0.5", "0.25", "1.0", "1.0"]
    assert found.classes == {name: pytest.approx(p) for _, name, p in box.top()}
    assert found.timeline is None
    reader = Video.open(last.film)
    film = reader.get_batch(range(len(reader)))
    assert len(film) == 24 and film[0].shape == (360, 720, 3)
    corners = [image[93:103, 359:364].mean(axis=(0, 1)) for image in film]
    blue = [bool(corner[2] > corner[1]) for corner in corners]
    assert blue == [6 <= number <= 18 for number in range(24)]  # half a second around it


def test_the_page_numbers_persons(tiny_videos, tmp_path, monkeypatch) -> None:
    """It looks five times a second in a short video, and less often in a long one."""
    pytest.importorskip("trackers", reason="needs trackers")
    persons = [Person((0.1, 0.2, 0.4, 0.8)), Person((0.6, 0.2, 0.9, 0.8))]
    monkeypatch.setattr("mmvidformer.apis.parts.load_detector", lambda _: lambda *frame: persons)
    for most, tracks in ((150, {"1", "2"}), (6, {"1", "2"}), (3, set())):
        monkeypatch.setattr("mmvidformer.web.answers.MOST_MOMENTS", most)
        folder = tmp_path / str(most)
        folder.mkdir()
        _, parts = answers("boxes", folder, tiny_videos.root / "val_1.mp4")
        found, *films = islice(parts, 1 + (most == 150))
        assert len(films) == (most == 150)  # one film is enough
        rows = [dict(zip(found.table["headers"], row, strict=True)) for row in found.table["data"]]
        assert {row["track"] for row in rows if "track" in row} == tracks
        assert max(float(row["end"]) for row in rows) == {150: 1.8, 6: 1.667, 3: 1.333}[most]


def test_a_model_of_frames_shows_its_steps(tiny_videos, tmp_path) -> None:
    video = tiny_videos.root / "val_0.mp4"
    recognizer, (found, last) = answers("frames", tmp_path, video)
    steps = [one.probabilities["class"] for one in recognizer.timeline(video)]
    means = dict(zip(("walk", "sit"), np.mean(steps, axis=0), strict=True))
    assert found.classes == pytest.approx(means)
    assert found.timeline.axes and found.film is None and last.film is None
    segments, film = map(Path, last.files)
    with SegmentsCsv(tmp_path / "expected.csv", SinkOptions()) as sink:
        for step in recognizer.timeline(video):
            sink.append(replace(step, source="val_0.mp4"))
    assert segments.read_bytes() == (tmp_path / "expected.csv").read_bytes()
    assert len(Video.open(str(film))) == 24

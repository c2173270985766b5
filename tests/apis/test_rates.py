"""Predictions of files of variable rate have the seconds that the container states."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from mmvidformer.apis import Capture, Recognizer
from mmvidformer.apis.bulk.extraction import EveryClip
from mmvidformer.apis.detector import Person
from mmvidformer.apis.persons import find_persons
from mmvidformer.engine.pipelines import set_video_backend
from tests.video.toys import BURST, VARIABLE, read_clock, shown_at, write_clock


@pytest.fixture
def cfg(cfg):
    """A config that reads videos as the shipped ones do."""
    set_video_backend(cfg, "pyav")
    return cfg


@pytest.fixture
def burst(tmp_path: Path) -> Path:
    """A file of variable rate, of 33 frames in 4.5 s."""
    write_clock(tmp_path / "v.mp4", size=(64, 48))
    return tmp_path / "v.mp4"


def told(sample: dict) -> np.ndarray:
    """Seconds that the frames of a sample tell."""
    return read_clock(sample["inputs"].numpy().transpose(0, 2, 3, 4, 1))


def test_windows_hold_the_frames_of_their_seconds(cfg, burst: Path) -> None:
    recognizer = Recognizer(cfg, None)
    opened = recognizer.pipeline.open(burst)
    windows = recognizer.windows(opened, window=1.0, stride=0.5)
    assert (opened["avg_fps"], opened["total_frames"]) == (25, 113)
    assert len(windows) == len([*recognizer.timeline(burst, window=1.0, stride=0.5)]) == 9
    for (first, last, _), prediction in zip(
        windows, recognizer.timeline(burst, 1.0, 0.5), strict=True
    ):
        start, end = prediction.seconds
        assert (start, end) == pytest.approx((first / 25, (last + 1) / 25))
        seconds = told(recognizer.pipeline.read(opened, (first, last)))
        assert (seconds > shown_at(start) - 0.05).all() and (seconds < end).all()


def test_windows_share_frames_as_at_a_constant_rate(cfg, burst: Path) -> None:
    """The class of a window is that of the same frames as an array."""
    recognizer = Recognizer(cfg, None)
    frames = [pixels for _, _, pixels in Capture(burst).frames()]
    streamed = [p.scores for p in recognizer.stream(frames, 25, window=1.0, stride=0.5)]
    found = [p.scores for p in recognizer.timeline(burst, window=1.0, stride=0.5)]
    for one, other in zip(streamed, found, strict=False):
        np.testing.assert_allclose(one["class"], other["class"], atol=1e-5)


def test_a_capture_gives_the_frame_that_is_shown(burst: Path) -> None:
    with Capture(burst) as source:
        numbers, seconds, images = zip(*source.frames(), strict=True)
    assert numbers == tuple(range(113))
    assert (source.fps, source.total) == (25, 113)
    np.testing.assert_allclose(read_clock(np.stack(images)), shown_at(seconds), atol=0.05)


@pytest.mark.parametrize("name", VARIABLE)
def test_streams_tell_the_seconds_of_their_frames(cfg, tmp_path: Path, name: str) -> None:
    """Of a telephone, a screen and a meeting."""
    write_clock(tmp_path / "v.mp4", VARIABLE[name], size=(64, 48))
    with Capture(tmp_path / "v.mp4") as source:
        frames = list(source.frames())
    _, seconds, images = zip(*frames, strict=True)
    np.testing.assert_allclose(read_clock(images), shown_at(seconds, VARIABLE[name]), atol=0.05)
    step = len(frames) // 12
    with Capture(tmp_path / "v.mp4") as source:
        sparse = list(source.frames(time_step=step / source.fps))
    assert [number for number, _, _ in sparse] == list(range(0, len(frames), step))
    recognizer = Recognizer(cfg, None)
    with Capture(tmp_path / "v.mp4") as source:
        options = dict(window=1.0, stride=0.5, cuts="none")  # where a clock jumps, there is one
        streamed = list(recognizer.stream(source, **options))
    windows = list(recognizer.timeline(tmp_path / "v.mp4", **options))
    for prediction, window in zip(streamed, windows, strict=False):
        assert prediction.seconds == pytest.approx(window.seconds)
        np.testing.assert_allclose(prediction.scores["class"], window.scores["class"], atol=1e-5)
    assert len(streamed) >= len(windows) - 1 >= 6


def test_a_file_at_an_address_keeps_time(burst: Path, web, tmp_path: Path) -> None:
    """At the mean rate, which is all that is known before the file has been read."""
    write_clock(tmp_path / "v.mkv", size=(64, 48))
    address = web.add("/v.mkv", (tmp_path / "v.mkv").read_bytes())
    with Capture(address) as source:
        numbers, seconds, images = zip(*source.frames(), strict=True)
    assert numbers == tuple(range(len(numbers)))
    late = np.array(seconds) - read_clock(np.stack(images))
    assert (late > -2 / source.fps - 0.05).all() and (late < 0.5 + 2 / source.fps).all()
    assert seconds[-1] == pytest.approx(4.5, abs=2 / source.fps)


def test_persons_are_found_at_their_times(cfg, burst: Path) -> None:
    """A person is where the clock of the frame tells, and keeps its number."""
    pytest.importorskip("trackers", reason="needs trackers")

    def detector(frame: np.ndarray, min_score: float) -> list[Person]:
        (clock,) = read_clock(frame[None])
        return [Person((0.1 + 0.1 * clock, 0.2, 0.3 + 0.1 * clock, 0.8), 0.9)]

    for rate, track, count in ((1, False, 5), (4, True, 19)):
        opened = Recognizer(cfg, None).pipeline.open(burst)
        moments = list(find_persons(opened, detector, rate, track, cuts="none"))
        assert [moment.seconds for moment in moments] == [n / rate for n in range(count)]
        clocks = [10 * moment.persons[0].box[0] - 1 for moment in moments]
        shown = [shown_at(moment.seconds) for moment in moments]
        np.testing.assert_allclose(clocks, shown, atol=0.05)
        assert {moment.persons[0].track for moment in moments} == {1 if track else None}


def test_features_have_the_rate_and_the_length(cfg, burst: Path) -> None:
    recognizer = Recognizer(cfg, None)
    pipeline = recognizer.pipeline
    for second, (sample, where) in enumerate(EveryClip(pipeline, 25, None)(str(burst))):
        clip = sample["inputs"]
        assert (where["facts"]["fps"], where["facts"]["frames"]) == (25, 113)
        assert where["seconds"][0] == second
        assert read_clock(clip[0, :, 0].numpy()[None].transpose(0, 2, 3, 1)) < second + 0.05


def test_the_class_of_a_whole_video_counts_frames(cfg, burst: Path) -> None:
    """As MMAction2 does."""
    recognizer = Recognizer(cfg, None)
    assert recognizer(burst).seconds is None
    assert recognizer.pipeline.open(burst)["total_frames"] == len(BURST)


def test_decord_is_refused(cfg, burst: Path) -> None:
    set_video_backend(cfg, "decord")
    with pytest.raises(
        ValueError, match=r"v\.mp4: its frame rate varies .*; read it with VideoInit"
    ):
        next(Recognizer(cfg, None).timeline(burst))


def test_the_command_states_true_seconds(
    cfg, burst: Path, main_of: Callable, build, capsys
) -> None:
    root = burst.parent
    cfg.dump(root / "config.py")
    torch.save(dict(state_dict=build(cfg).state_dict()), root / "weights.pth")
    options = [str(root / name) for name in ("config.py", "weights.pth", "v.mp4")]
    table = root / "windows.csv"
    assert main_of("demo")([*options, "--window", "1", "--windows", str(table)]) == 0
    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    assert float(rows[0][1]) == 0 and float(rows[-1][2]) == pytest.approx(4.52)

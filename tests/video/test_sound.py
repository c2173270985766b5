"""Films keep the sound of their videos, at its time."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from mmvidformer.video.writer import VideoOutput

RATE = 44_100


def write_video(path: Path, codec: str | None, first: float = 0.0) -> Path:
    """Write 2 s of 25 frames each second, the first one late, and a beep each half second."""
    with av.open(str(path), "w") as file:
        pictures = file.add_stream("h264", 25)
        pictures.width = pictures.height = 64
        sound = file.add_stream(codec, RATE) if codec else None
        for number in range(50):
            frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), number, np.uint8), "rgb24")
            frame.pts, frame.time_base = number + round(first * 25), Fraction(1, 25)
            file.mux(pictures.encode(frame))
        file.mux(pictures.encode(None))
        if sound is None:
            return path
        times = np.arange(int(RATE * (2 + first))) / RATE
        beeps = (np.sin(2 * np.pi * 440 * times) * (times % 0.5 < 0.1)).astype(np.float32) / 2
        for start in range(0, len(beeps), 1024):
            stereo = np.stack([beeps[start : start + 1024]] * 2)
            frame = av.AudioFrame.from_ndarray(stereo, "fltp", "stereo")
            frame.rate, frame.pts, frame.time_base = RATE, start, Fraction(1, RATE)
            file.mux(sound.encode(frame))
        file.mux(sound.encode(None))
    return path


def write_film(path: Path, video: Path, frames: int = 40) -> Path:
    with VideoOutput(path, 25, sound=video) as output:
        for number in range(frames):
            output.add(np.full((64, 64, 3), number, np.uint8))
    return path


def beeps_of(path: Path) -> tuple[list[float], float]:
    """Return when the beeps of a file begin, and when its sound ends."""
    with av.open(str(path)) as file:
        frames = list(file.decode(file.streams.audio[0]))
    channels = [frame.to_ndarray()[0] for frame in frames]  # of packed samples, both channels
    step = 1 if frames[0].format.is_planar else 2
    samples = np.concatenate([channel[::step] for channel in channels])
    loud = np.abs(samples) > 0.2 * np.abs(samples).max()
    is_first = [not loud[max(i - RATE // 5, 0) : i].any() for i in np.flatnonzero(loud)]
    begins = frames[0].time + np.flatnonzero(loud)[is_first] / RATE
    return begins.round(2).tolist(), frames[-1].time + frames[-1].samples / RATE


@pytest.mark.parametrize("name", ["a.mp4 aac", "a.mkv pcm_s16le", "a.mkv flac", "a.avi mp3"])
def test_sound_is_copied_or_encoded_and_ends_with_the_film(name: str, tmp_path: Path) -> None:
    video = write_video(tmp_path / name.split()[0], name.split()[1])
    begins, end = beeps_of(write_film(tmp_path / "film.mp4", video))
    heard, _ = beeps_of(video)
    assert len(heard) == 4 and begins == pytest.approx(heard, abs=0.011)
    assert end == pytest.approx(40 / 25, abs=0.1)


@pytest.mark.parametrize("codec", ["aac", "pcm_s16le"])
def test_sound_begins_with_the_first_picture(codec: str, tmp_path: Path) -> None:
    video = write_video(tmp_path / "late.mkv", codec, first=0.4)
    begins, _ = beeps_of(write_film(tmp_path / "film.mp4", video))
    assert begins == pytest.approx([0.1, 0.6, 1.1, 1.6][: len(begins)], abs=0.011)
    assert len(begins) >= 3


def test_a_film_without_sound(tmp_path: Path) -> None:
    film = write_film(tmp_path / "film.mp4", write_video(tmp_path / "silent.mp4", None))
    with av.open(str(film)) as file:
        assert not file.streams.audio
        assert file.streams.video[0].frames == 40


def test_damaged_sound_does_not_end_a_film(tmp_path: Path) -> None:
    video = write_video(tmp_path / "damaged.mkv", "pcm_s16le")
    video.write_bytes(video.read_bytes()[: video.stat().st_size // 2])
    film = write_film(tmp_path / "film.mp4", video)
    with av.open(str(film)) as file:
        assert file.streams.video[0].frames == 40

"""A film of a file whose frame rate varies: sound and pictures stay together."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from mmvidformer.sinks.film import annotate_video
from tests.video.test_sound import RATE, beeps_of

MILLISECOND = Fraction(1, 1000)
# Seconds of the frames: 30 a second, then 12, then one that lasts, then 24, as of a phone in the
# dark. A flash and a beep begin at some of them.
TIMES = np.round(
    [*np.arange(0, 1, 1 / 30), *np.arange(1, 2, 1 / 12), 2, *np.arange(2.7, 4, 1 / 24)], 3
)
FLASHES = (0.5, 1.5, 2.7, 3.5)


def write_flashes(path: Path) -> Path:
    """Write a video that flashes and beeps for 0.1 s at the same times."""
    with av.open(str(path), "w") as file:
        pictures = file.add_stream("h264", 30)
        pictures.width = pictures.height = 64
        pictures.time_base = pictures.codec_context.time_base = MILLISECOND
        sound = file.add_stream("aac", RATE)
        for time in TIMES:
            is_bright = any(0 <= time - flash < 0.1 for flash in FLASHES)
            pixels = np.full((64, 64, 3), 255 * is_bright, np.uint8)
            frame = av.VideoFrame.from_ndarray(pixels, "rgb24")
            frame.pts, frame.time_base = round(1000 * float(time)), MILLISECOND
            file.mux(pictures.encode(frame))
        file.mux(pictures.encode(None))
        times = np.arange(4 * RATE) / RATE
        is_loud = np.any([(times >= flash) & (times < flash + 0.1) for flash in FLASHES], axis=0)
        beeps = (np.sin(2 * np.pi * 440 * times) * is_loud).astype(np.float32) / 2
        for start in range(0, len(beeps), 1024):
            stereo = np.stack([beeps[start : start + 1024]] * 2)
            frame = av.AudioFrame.from_ndarray(stereo, "fltp", "stereo")
            frame.rate, frame.pts, frame.time_base = RATE, start, Fraction(1, RATE)
            file.mux(sound.encode(frame))
        file.mux(sound.encode(None))
    return path


def flashes_of(path: Path) -> list[float]:
    """Return when the left half of the pictures becomes bright."""
    with av.open(str(path)) as file:
        frames = [(frame.time, frame.to_ndarray(format="gray")) for frame in file.decode(video=0)]
    bright = [image[60:-60, : image.shape[0] // 2].mean() > 128 for _, image in frames]
    return [
        time
        for (time, _), is_bright, was_bright in zip(frames, bright, [False, *bright], strict=False)
        if is_bright and not was_bright
    ]


def test_sound_and_pictures_of_a_variable_rate_stay_together(tmp_path: Path) -> None:
    video, film = write_flashes(tmp_path / "phone.mp4"), tmp_path / "film.mp4"
    annotate_video(video, [], film)
    beeps, end = beeps_of(film)
    assert beeps == pytest.approx(FLASHES, abs=0.012)
    with av.open(str(film)) as file:
        rate = float(file.streams.video[0].average_rate)
    assert flashes_of(film) == pytest.approx(FLASHES, abs=1 / rate + 0.005)
    assert end == pytest.approx(TIMES[-1], abs=0.15)

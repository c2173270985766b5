"""Cameras that deliver other rates than they state."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config

from mmvidformer.apis import Recognizer
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.video.capture import FrameSource


class Camera(FrameSource):
    """A camera that states 12 frames per second, and delivers another rate, with a gap."""

    name, fps, is_live = "camera 0", 12.0, True

    def __init__(self, rate: float, seconds: float, gap: int) -> None:
        self.rate, self.seconds, self.gap, self.cuts = rate, seconds, gap, []

    def frames(self, interval: int = 1, time_step: float | None = None) -> Iterator[tuple]:
        for number in range(round(self.rate * self.seconds)):
            if number != self.gap:
                yield number, number / self.rate, np.full((32, 64, 3), number % 256, np.uint8)


@pytest.mark.parametrize("rate", [6, 12, 24])
def test_windows_of_a_camera_have_the_seconds_at_which_frames_arrive(rate: float, caplog) -> None:
    cfg = Config.fromfile(Path(__file__).parents[1] / "cli" / "tiny_vivit.py")
    set_video_backend(cfg, "pyav")
    recognizer = Recognizer(cfg, None, clips=1)
    camera = Camera(rate, seconds=20, gap=30)
    ends = [prediction.seconds for prediction in recognizer.stream(camera, window=1, stride=1)]
    # Windows of 12 frames, before the gap and after it; the last frame lasts as long as is stated.
    firsts = [0, 12, *range(31, round(rate * 20) - 11, 12)]
    expected = [(first / rate, (first + 11) / rate + 1 / 12) for first in firsts]
    assert ends == [pytest.approx(pair) for pair in expected]
    words = f"camera 0 states 12 frames per second, but delivers {rate}: windows span"
    assert caplog.text.count(words) == (rate != 12)
    assert rate == 12 or f"{words} {12 / rate:g} times" in caplog.text

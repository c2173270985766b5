"""Cameras that deliver other rates than they state."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config

from mmvidformer.apis import Recognizer
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.video.capture import FrameSource

BURST = 20  # frames that had waited at the start


class Camera(FrameSource):
    """A camera that states 12 frames per second, and delivers another rate, with a gap."""

    name, fps, is_live = "camera 0", 12.0, True

    def __init__(self, rate: float, seconds: float, gap: int) -> None:
        self.rate, self.seconds, self.gap, self.cuts = rate, seconds, gap, []

    def frames(self, interval: int = 1, time_step: float | None = None) -> Iterator[tuple]:
        for number in range(round(self.rate * self.seconds) + BURST):
            if number != self.gap:
                clock = max(number - BURST, 0) / self.rate
                yield number, clock, np.full((32, 64, 3), number % 256, np.uint8)


@pytest.mark.parametrize("rate", [6, 12, 24])
def test_windows_of_a_camera_have_the_seconds_of_its_real_rate(rate: float, caplog) -> None:
    cfg = Config.fromfile(Path(__file__).parents[1] / "cli" / "tiny_vivit.py")
    set_video_backend(cfg, "pyav")
    recognizer = Recognizer(cfg, None, clips=1)
    camera = Camera(rate, seconds=30, gap=60)
    stream = recognizer.stream(camera, window=1, stride=1, cuts="none")  # it is a ramp of gray
    begins, ends = np.transpose([prediction.seconds for prediction in stream])
    # Windows have 12 frames: five before the gap, and those after it.
    counts = np.diff(begins[5:])
    assert begins[:2] == pytest.approx([0, 1])  # the burst at the start lasts as long as is stated
    assert begins[5] == pytest.approx((61 - BURST) / rate)
    # Three seconds after the start of a part, the rate is known.
    assert counts[-5:] == pytest.approx(12 / rate)
    assert (ends - begins)[-5:] == pytest.approx(11 / rate + 1 / 12)
    # Until then, the stated rate is taken, and nothing adds up later.
    off = abs(begins[-1] - (61 + 12 * (len(begins) - 6) - BURST) / rate)
    assert off <= 3.1 * abs(1 - rate / 12) + 1e-6
    words = f"camera 0 states 12 frames per second, but delivers {rate}: windows span"
    assert (words in caplog.text) == (rate != 12)
    assert rate == 12 or f"{words} {12 / rate:g} times" in caplog.text

"""Frames that are shown while a model takes them."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from mmvidformer.apis import Capture, Prediction
from mmvidformer.video.capture import Frame, FrameSource
from mmvidformer.video.writer import VideoOutput
from mmvidformer.visualization import annotate


class ShownFrames(FrameSource):
    """Frames of a camera or an address, shown with the latest prediction as the model takes them.

    Args:
        capture: The camera or address.
        output: What shows the frames.
        k: Number of classes that are drawn.
        end: Seconds after which the frames end; None: never.

    Attributes:
        latest: The latest prediction.
        seconds: Time of the last frame.
        is_closed: Whether q was pressed, which ended the frames.
    """

    def __init__(self, capture: Capture, output: VideoOutput, k: int, end: float | None) -> None:
        self.capture, self.output, self.k, self.end = capture, output, k, end
        self.name, self.fps = capture.name, capture.fps
        self.is_live, self.cuts = capture.is_live, capture.cuts
        self.latest: Prediction | None = None
        self.seconds = 0.0
        self.is_closed = False

    def frames(self, *steps: Any, **named_steps: Any) -> Iterator[Frame]:
        """Yield the frames of ``Capture.frames`` until time is over, or q is pressed."""
        for number, seconds, pixels in self.capture.frames(*steps, **named_steps):
            self.seconds = seconds
            if self.end is not None and seconds >= self.end:
                return
            if self.latest is not None and not self.output.add(self._draw(pixels)):
                self.is_closed = True
                return
            yield number, seconds, pixels

    def _draw(self, pixels: np.ndarray) -> np.ndarray:
        bars = annotate.prediction_bars(self.latest, self.k)
        return annotate.annotate_frame(pixels, self.name, bars)

"""Pages of a running stream: the frame, the likeliest classes, and what is looked back at."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from mmvidformer.visualization.film import write_line
from mmvidformer.visualization.heat import enlarge, overlay
from mmvidformer.visualization.state_attention import StateWeights
from mmvidformer.visualization.state_strip import dim

PANEL = 300  # width of the panel with the classes
LINE, BAR = 24, 28
LEGEND = "looked back at: 0 (blue) to 1 (red)"
DARK, BLUE, GREY = (24, 24, 24), (60, 110, 190), (170, 170, 170)


@dataclass(frozen=True)
class Bars:
    """Likeliest classes of a task: a heading, and each class with its probability."""

    heading: str
    classes: Sequence[tuple[str, float]]


class StreamPages:
    """Draws pages of one size, and holds as many past frames as a layer has states.

    Args:
        size: Height and width of the frames.
        bars: Those of the first page; no page may have more lines.
        past: Past frames to show with the weights of their states; 0 leaves out all attention.
        min_height: Frames that are lower are enlarged to this height.
        max_height: Frames that are higher are made as small as this; letters keep their size.
    """

    def __init__(
        self,
        size: tuple[int, int],
        bars: Sequence[Bars],
        past: int = 0,
        min_height: int = 360,
        max_height: int = 720,
    ) -> None:
        scale = min(max(1.0, min_height / size[0]), max_height / size[0])
        height, width = (2 * round(n * scale / 2) for n in size)
        self._shown = (height, width)
        self._pictures = width * (2 if past else 1)
        self._frames: deque[np.ndarray] = deque(maxlen=past)
        self._thumb = (0, 0)
        if past:
            across = self._pictures // past
            self._thumb = (round(size[0] * across / size[1]), across)
        below = self._thumb[0] + LINE if past else 0
        panel = sum(LINE * (len(group.classes) + 1) + LINE // 2 for group in bars)
        # MPEG-4 takes even sizes only.
        self._height = -(-max(BAR + height + below, panel) // 2) * 2
        self.size = (-(-(self._pictures + PANEL) // 2) * 2, self._height)

    def draw(
        self,
        frame: np.ndarray,
        heading: str,
        bars: Sequence[Bars],
        attention: StateWeights | None = None,
    ) -> np.ndarray:
        """Draw a page.

        Args:
            frame: RGB (H, W, 3), 8 bit; the next one after that of the page before.
            heading: Over it.
            bars: For the panel.
            attention: Of this frame to the states of the frames before.

        Returns:
            RGB (height, width, 3), 8 bit, of ``size``.
        """
        page = np.full((self._height, self.size[0], 3), DARK, np.uint8)
        height, width = self._shown
        smaller = height < len(frame)
        how = cv2.INTER_AREA if smaller else cv2.INTER_CUBIC
        large = cv2.resize(frame, (width, height), interpolation=how)
        page[BAR : BAR + height, :width] = large
        write_line(page, heading, (8, BAR - 8), width - 16)
        if self._frames.maxlen:
            write_line(page, LEGEND, (width + 8, BAR - 8), width - 16, 0.5, GREY)
            right = page[BAR : BAR + height, width : self._pictures]
            if attention is None:
                right[:] = large
            else:
                heat = enlarge(attention.seen.numpy()[None], self._shown)
                right[:] = overlay(large[None], heat, limits=(0, 1))[0]
                self._draw_past(page[BAR + height :], attention)
            self._frames.append(cv2.resize(frame, self._thumb[::-1], interpolation=cv2.INTER_AREA))
        _draw_bars(page[:, self._pictures :], bars)
        return page

    def _draw_past(self, room: np.ndarray, attention: StateWeights) -> None:
        """Put the past frames side by side, the latest at the right, faint by their weights."""
        weights = attention.states.numpy()
        held = len(self._frames)
        if len(weights) > held:
            raise ValueError(f"attention to {len(weights)} states, but {held} frames were drawn")
        height, width = self._thumb
        faint = dim(np.stack(list(self._frames)[held - len(weights) :]), weights)
        for i, (picture, weight) in enumerate(zip(faint[::-1], weights[::-1], strict=True)):
            left = self._pictures - (i + 1) * width
            room[2:height, left + 1 : left + width - 1] = picture[2:, 1:-1]  # a thin line between
            write_line(room, f"{weight:.2f}", (left + 4, height + LINE - 8), width - 8, 0.45)


def _draw_bars(panel: np.ndarray, bars: Sequence[Bars]) -> None:
    base, width = BAR - 8, panel.shape[1] - 16
    for group in bars:
        write_line(panel, group.heading, (8, base), width, 0.5, GREY)
        base += LINE
        for name, share in group.classes:
            end = 8 + round(width * share)
            cv2.rectangle(panel, (8, base - 16), (max(end, 9), base + 5), BLUE, -1)
            write_line(panel, f"{share:4.0%} {name}", (12, base), width - 8, 0.5)
            base += LINE
        base += LINE // 2

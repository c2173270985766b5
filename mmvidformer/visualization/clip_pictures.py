"""Clips with their heat maps as a strip of frames (png) and as a film (mp4)."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from mmvidformer.visualization.film import Film, write_line
from mmvidformer.visualization.heat import COLOURS, overlay


@dataclass(frozen=True)
class HeatClip:
    """A clip to be drawn.

    Args:
        title: Which clip, and what the model says of it.
        frames: RGB (T, H, W, 3), 8 bit.
        heat: Heat (T, H, W).
        numbers: Number of each frame in its video.
    """

    title: str
    frames: np.ndarray
    heat: np.ndarray
    numbers: Sequence[int]


def draw_strip(clips: Sequence[HeatClip], columns: int = 8) -> Figure:
    """Draw a row of frames and a row of overlays for each clip.

    Args:
        clips: What to draw.
        columns: Most frames of a clip; they are evenly spread over it.

    Returns:
        The figure, 1.6 inches a column.
    """
    columns = min(columns, max(len(clip.frames) for clip in clips))
    height, width = clips[0].frames.shape[1:3]
    side = 1.6
    size = (side * columns + 1.2, len(clips) * (2 * side * height / width + 0.7))
    figure = Figure(figsize=size, dpi=120, layout="constrained")
    parts = np.atleast_1d(figure.subfigures(len(clips), 1))
    for part, clip in zip(parts, clips, strict=True):
        part.suptitle(textwrap.fill(clip.title, int(12 * size[0])), fontsize=11)
        axes = part.subplots(2, columns, squeeze=False)
        places = np.linspace(0, len(clip.frames) - 1, columns).round().astype(int)
        coloured = overlay(clip.frames, clip.heat)
        for (top, bottom), place in zip(axes.T, places, strict=True):
            top.imshow(clip.frames[place])
            top.set_title(f"frame {clip.numbers[place]}", fontsize=8, pad=3)
            bottom.imshow(coloured[place])
        for axis in axes.flat:
            axis.set_axis_off()
        colours = ScalarMappable(Normalize(clip.heat.min(), clip.heat.max()), COLOURS)
        bar = part.colorbar(colours, ax=axes, fraction=0.02, pad=0.01, aspect=30)
        bar.set_label("share / mean share", fontsize=8)
        bar.ax.tick_params(labelsize=8)
    return figure


def write_film(
    clips: Sequence[HeatClip], path: str | Path, fps: float = 4, min_height: int = 360
) -> None:
    """Write frames and overlays side by side, one clip after the other, with captions.

    Args:
        clips: What to show; all of one size.
        path: The .mp4 file.
        fps: Frames a second.
        min_height: Frames that are lower are enlarged to this height.

    Raises:
        RuntimeError: If OpenCV cannot write the file.
    """
    height, width = clips[0].frames.shape[1:3]
    scale = max(1.0, min_height / height)
    height, width = (2 * round(n * scale / 2) for n in (height, width))
    bar = 28
    size = (2 * width, height + 2 * bar)
    with Film(path, fps, size) as film:
        for clip in clips:
            for page in _pages(clip, (width, height), bar):
                film.add(page)


def _pages(clip: HeatClip, size: tuple[int, int], bar: int) -> Iterator[np.ndarray]:
    width, height = size
    for pair in zip(clip.frames, overlay(clip.frames, clip.heat), clip.numbers, strict=True):
        *pictures, number = pair
        large = [cv2.resize(p, (width, height), interpolation=cv2.INTER_CUBIC) for p in pictures]
        page = np.zeros((height + 2 * bar, 2 * width, 3), np.uint8)
        page[bar:-bar] = np.concatenate(large, axis=1)
        write_line(page, clip.title, (8, bar - 8))
        write_line(page, f"frame {number}", (8, len(page) - 8))
        yield page

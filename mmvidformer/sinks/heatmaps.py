"""Heat maps on the frames of clips, such as attention rollout."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from mmvidformer.sinks.annotate import annotate_frame, prediction_bars
from mmvidformer.sinks.figures import without_formulas
from mmvidformer.tasks.prediction import Prediction

COLORS = "turbo"


@dataclass(frozen=True)
class HeatStrip:
    """A clip to draw with its heat.

    Args:
        title: Title of the strip.
        frames: RGB (T, H, W, 3), uint8.
        heat: Heat (T, H, W); the colors of the overlays span its range.
        captions: Title of each frame.
        label: What the heat is, for the color bar.
    """

    title: str
    frames: np.ndarray
    heat: np.ndarray
    captions: Sequence[str]
    label: str


def draw_strips(strips: Sequence[HeatStrip], columns: int | None = None) -> Figure:
    """Draw for each strip a row of frames and a row of overlays.

    Args:
        strips: What to draw; frames of one size. Shorter strips are drawn at the right.
        columns: Most frames per strip, evenly spread over it; default: all.
    """
    longest = max(len(strip.frames) for strip in strips)
    columns = min(columns or longest, longest)
    height, width = strips[0].frames.shape[1:3]
    tall = 1.6 * height / width
    size = (1.6 * columns + 1.2, len(strips) * (2 * tall + 0.7))
    figure = Figure(figsize=size, dpi=120, layout="constrained")
    parts = figure.subfigures(len(strips), 1, squeeze=False)[:, 0]
    for part, strip in zip(parts, strips, strict=True):
        part.suptitle(textwrap.fill(strip.title, int(12 * size[0])), fontsize=11)
        axes = part.subplots(2, columns, squeeze=False)
        for axis in axes.flat:
            axis.set_axis_off()
        count = len(strip.frames)
        overlays = overlay(strip.frames, strip.heat)
        shown = np.linspace(0, count - 1, min(columns, count)).round().astype(int)
        for (top, bottom), i in zip(axes[:, columns - len(shown) :].T, shown, strict=True):
            top.imshow(strip.frames[i])
            top.set_title(strip.captions[i], fontsize=8, pad=3)
            bottom.imshow(overlays[i])
        colors = ScalarMappable(Normalize(strip.heat.min(), strip.heat.max()), COLORS)
        bar = part.colorbar(colors, ax=axes, fraction=0.02, pad=0.01, aspect=30)
        bar.set_label(strip.label, fontsize=8)
        bar.ax.tick_params(labelsize=8)
    return without_formulas(figure)


def draw_clip(
    title: str, frames: np.ndarray, heat: np.ndarray, numbers: Sequence[int], prediction: Prediction
) -> tuple[HeatStrip, list[np.ndarray]]:
    """Return the strip of a clip, and an image of each frame, its heat and the predicted classes.

    Args:
        title: Names the video and the clip.
        frames: RGB (T, H, W, 3), uint8.
        heat: Multiples of the mean share (T, H, W).
        numbers: Number of each frame in the video.
        prediction: Answer for the clip.
    """
    captions = [f"frame {number}" for number in numbers]
    label = "share / mean share"
    legend = f"{label}: {heat.min():.2f} (blue) to {heat.max():.2f} (red)"
    bars = prediction_bars(prediction, heading="this clip")
    images = [
        annotate_frame(frame, f"{title}, {caption}", bars, hot, legend)
        for frame, hot, caption in zip(frames, overlay(frames, heat), captions, strict=True)
    ]
    return HeatStrip(f"{title}: {prediction.text(1)}", frames, heat, captions, label), images


def overlay(
    frames: np.ndarray,
    heat: np.ndarray,
    opacity: float = 0.5,
    limits: tuple[float, float] | None = None,
) -> np.ndarray:
    """Blend gray copies of frames (T, H, W, 3) with the colors of their heat (T, H, W).

    Gray, so that no color of the video is mistaken for heat. The gray value is the largest of the
    three channels, which keeps the outlines of strongly colored objects. ``limits`` are the heat of
    the first and the last color, by default its minimum and maximum.
    """
    low, high = limits or (heat.min(), heat.max())
    scaled = ((heat - low) / max(high - low, 1e-12)).clip(0, 1)
    colors = 255 * matplotlib.colormaps[COLORS](scaled)[..., :3]
    gray = frames.max(axis=-1, keepdims=True)
    return ((1 - opacity) * gray + opacity * colors).round().astype(np.uint8)

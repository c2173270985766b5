"""Strips of the past frames and how a HORST layer looks back at them (the paper's figures 4, 5)."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from mmvidformer.visualization.heat import COLOURS, enlarge, overlay
from mmvidformer.visualization.state_attention import StateWeights


@dataclass(frozen=True)
class LookBack:
    """A moment of a video to be drawn.

    Args:
        title: Which moment, and what the model says.
        frames: RGB (S + 1, H, W, 3), 8 bit: those of the S states, oldest first, and the current.
        names: What to write over each frame.
        attention: Of the current frame.
    """

    title: str
    frames: np.ndarray
    names: Sequence[str]
    attention: StateWeights


def dim(frames: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Fade frames (S, H, W, 3) to white by their weights (S,).

    The largest is not faded, and what has no weight keeps an eighth of its contrast, to be found.
    """
    opacity = 1 / 8 + 7 / 8 * weights / max(weights.max(), 1e-12)
    return (255 - opacity[:, None, None, None] * (255.0 - frames)).round().astype(np.uint8)


def draw_look_back(moments: Sequence[LookBack]) -> Figure:
    """Draw for each moment three rows: weights of the states, their frames, their places.

    The frames of the states are as faint as their weights are small against the largest, and below
    them lie the weights of their places as heat. At the right is the current frame, below it the
    mean of these heats by the weights of the states. Colours go from the smallest to the largest
    weight of a place of the moment.

    Args:
        moments: What to draw; frames of one size.

    Returns:
        The figure, 1.5 inches a frame.
    """
    columns = max(len(moment.frames) for moment in moments)
    height, width = moments[0].frames.shape[1:3]
    side, bars = 1.5, 0.9
    tall = side * height / width
    inches = (side * columns + 1.2, len(moments) * (bars + 2 * tall + 0.9))
    figure = Figure(figsize=inches, dpi=120, layout="constrained")
    parts = np.atleast_1d(figure.subfigures(len(moments), 1))
    for part, moment in zip(parts, moments, strict=True):
        part.suptitle(textwrap.fill(moment.title, int(12 * inches[0])), fontsize=11)
        axes = part.subplots(
            3, columns, squeeze=False, gridspec_kw={"height_ratios": [bars, tall, tall]}
        )
        _draw_moment(moment, axes)
        places = moment.attention.places.numpy()
        colours = ScalarMappable(Normalize(places.min(), places.max()), COLOURS)
        bar = part.colorbar(colours, ax=axes[1:], fraction=0.02, pad=0.01, aspect=25)
        bar.set_label("weight of a place", fontsize=8)
        bar.ax.tick_params(labelsize=8)
    return figure


def _draw_moment(moment: LookBack, axes: np.ndarray) -> None:
    weights, places = (x.numpy() for x in (moment.attention.states, moment.attention.places))
    heat = np.concatenate([places, moment.attention.seen.numpy()[None]])
    heat = enlarge(heat, moment.frames.shape[1:3])
    coloured = overlay(moment.frames, heat, limits=(places.min(), places.max()))
    faint = np.concatenate([dim(moment.frames[:-1], weights), moment.frames[-1:]])
    first = axes.shape[1] - len(moment.frames)  # fewer states than there could be: at the right
    for axis in axes.flat:
        axis.set_axis_off()
    rows = ("weights of states", "frames of states", "weights of places")
    for axis, row in zip(axes[:, 0], rows, strict=True):
        place = {"transform": axis.transAxes, "ha": "right", "va": "center"}
        axis.text(-0.05, 0.5, row, rotation=90, fontsize=8, **place)
    for i, name in enumerate(moment.names):
        top, middle, bottom = axes[:, first + i]
        middle.imshow(faint[i])
        middle.set_title(name, fontsize=8, pad=3)
        bottom.imshow(coloured[i])
        if i == len(weights):
            middle.set_title(f"now: {name}", fontsize=8, pad=3)
            bottom.set_title("mean by states", fontsize=8, pad=3)
            continue
        top.bar([0], [weights[i]], width=0.6, color="tab:blue")
        top.text(0, weights[i], f"{weights[i]:.2f}", ha="center", va="bottom", fontsize=8)
        top.set(xlim=(-0.7, 0.7), ylim=(0, 1.25 * weights.max()))

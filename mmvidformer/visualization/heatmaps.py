"""Heat maps on the frames of clips, such as attention rollout."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cv2
import matplotlib
import numpy as np
import torch
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from torch import Tensor, nn

from mmvidformer.apis import Recognizer, normalize
from mmvidformer.errors import UserError
from mmvidformer.layers.samples import DataSample
from mmvidformer.sinks.annotate import annotate_frame, prediction_bars
from mmvidformer.sinks.figures import without_formulas
from mmvidformer.visualization.attention_rollout import rollout

COLORS = "turbo"


def to_frames(preprocessor: nn.Module, clip: Tensor) -> np.ndarray:
    """Undo the normalization of a clip (C, T, H, W) by an ``ActionDataPreprocessor``.

    Returns:
        RGB frames (T, H, W, C), uint8.
    """
    if hasattr(preprocessor, "mean"):  # in the order of the channels that the model gets, RGB
        mean = preprocessor.mean.to(clip).view(-1, 1, 1, 1)
        std = preprocessor.std.to(clip).view(-1, 1, 1, 1)
        clip = clip * std + mean
    return clip.permute(1, 2, 3, 0).round().clamp(0, 255).to(torch.uint8).cpu().numpy()


def to_heat(shares: Tensor, tubelet: tuple[int, int, int]) -> np.ndarray:
    """Spread the shares (T, H, W) of a clip's tokens over its pixels.

    Returns:
        Multiples of the mean share (T * t, H * h, W * w): bilinear between the centers of the
        patches, equal for all frames of a tubelet.
    """
    maps = (shares / shares.mean()).float().cpu().numpy()
    size = (maps.shape[1] * tubelet[1], maps.shape[2] * tubelet[2])
    return np.repeat(enlarge(maps, size), tubelet[0], axis=0)


def enlarge(maps: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize maps (T, h, w) to frames of a size (H, W), bilinearly."""
    return np.stack([cv2.resize(m, size[::-1], interpolation=cv2.INTER_LINEAR) for m in maps])


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
    parts = np.atleast_1d(figure.subfigures(len(strips), 1))
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


def rollout_clips(
    recognizer: Recognizer, sample: dict, name: str
) -> Iterator[tuple[HeatStrip, list[np.ndarray]]]:
    """Compute what a model attends to in each clip of a video.

    Args:
        recognizer: Recognizer with a backbone that ``rollout`` accepts.
        sample: Clips and their frame numbers, from ``recognizer.pipeline.read``.
        name: Name of the video, for the titles.

    Yields:
        A strip, and an image per frame: the frame, its heat map and the predicted classes.

    Raises:
        UserError: If rollout is not defined for the model.
    """
    model, clips = recognizer._model, sample["inputs"]  # predictions stay optimized
    if hasattr(model, "stream"):  # its backbone gives features of each frame
        raise UserError(f"rollout is not defined for a {type(model).__name__}")
    numbers = sample["data_samples"].frame_inds.reshape(len(clips), -1)
    # One clip at a time: a single long clip can fill the memory of a device.
    for i, clip in enumerate(clips):
        clip = normalize(model, clip[None])
        shares = rollout(model.backbone, clip)
        heat = to_heat(shares.tokens[0], model.backbone.embed.tubelet)
        seen = tuple(slice(n) for n in heat.shape)  # a remainder fills no tubelet
        frames = to_frames(model.data_preprocessor, clip[0])[seen]
        with torch.no_grad():
            (scored,) = model.cls_head.predict(shares.features, [DataSample()])
        (prediction,) = recognizer.predictions_of(scored)
        captions = [f"frame {number}" for number in numbers[i][seen[0]]]
        title = f"{name}, clip {i + 1} of {len(clips)}"
        bars = prediction_bars(prediction, heading=f"clip {i + 1}")
        label = "share / mean share"
        legend = f"{label}: {heat.min():.2f} (blue) to {heat.max():.2f} (red)"
        images = [
            annotate_frame(frame, f"{title}, {caption}", bars, hot, legend)
            for frame, hot, caption in zip(frames, overlay(frames, heat), captions, strict=True)
        ]
        yield HeatStrip(f"{title}: {prediction.text(1)}", frames, heat, captions, label), images

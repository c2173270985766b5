"""Annotated frames of a video: the most likely classes, what the model attends to, and boxes."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mmvidformer.sinks.fonts import find_font
from mmvidformer.tasks.prediction import Prediction

PANEL = 300  # width of the panel with the classes
LINE, MARGIN = 24, 28
TEXT, SMALL_TEXT = 14, 12  # pixels of a letter, and of those at boxes
# Of the frame; letters keep their size. Encoders have limits, so that strips are lower.
MIN_HEIGHT, MAX_HEIGHT, MAX_WIDTH = 360, 720, 4096
# Of tracks: dark enough for white letters.
COLORS = (
    (60, 110, 190),
    (190, 70, 50),
    (40, 130, 70),
    (140, 70, 170),
    (170, 110, 20),
    (20, 130, 140),
)
DARK, BLUE, GRAY, WHITE = (24, 24, 24), (60, 110, 190), (170, 170, 170), (255, 255, 255)


class Bars(NamedTuple):
    """Most likely classes: a heading, and the probability of each class by name.

    Values are (name and value, None). ``threshold`` is drawn as a line, if there is one.
    """

    heading: str
    classes: Sequence[tuple[str, float | None]]
    threshold: float | None = None


def list_bars(predictions: Sequence[Prediction], k: int = 5, ahead: float = 1.0) -> list[Bars]:
    """The k most likely classes of each prediction and output, below what part it is about.

    Of a model of what comes next, predictions are those of one moment. If it names several times
    ahead, there is the next action at each, and the classes nearest to ``ahead`` seconds.
    """
    if not predictions or predictions[0].ahead is None:
        return [bars for prediction in predictions for bars in prediction_bars(prediction, k)]
    shown = min(predictions, key=lambda prediction: abs((prediction.ahead or 0.0) - ahead))
    next_actions = []
    for prediction in predictions:
        ((label, probability),) = prediction.classes(1)["action"]
        next_actions.append((f"{prediction.ahead:.2f} s {label}", probability))
    return [Bars("action, by seconds ahead", next_actions), *prediction_bars(shown, k)]


def prediction_bars(prediction: Prediction, k: int = 5, heading: str | None = None) -> list[Bars]:
    """The k most likely classes of each output, and values as text, as ``Prediction.row`` has them.

    The default heading is that of the task (``Answers.heading``).
    """
    if heading is None:
        heading = prediction.task.heading(prediction)
    if prediction.doubt:
        return [Bars(heading, [(prediction.text(k), None)])]
    bars = []
    for output, best in prediction.classes(k).items():
        title = heading if len(prediction.probabilities) == 1 else f"{output}, {heading}"
        bars.append(Bars(title, best, prediction.task.threshold))
    texts: list[tuple[str, float | None]] = [(text, None) for text in prediction.value_texts()]
    return [*bars, Bars("measured" if bars else heading, texts)] if texts else bars


def annotate_frame(
    frame: np.ndarray,
    heading: str,
    bars: Sequence[Bars],
    overlay: np.ndarray | None = None,
    legend: str = "",
) -> np.ndarray:
    """Draw an image: the frame, an overlay beside it, classes at the right.

    The size of an image depends on the size of the frame and the number of bars.

    Args:
        frame: RGB (H, W, 3), uint8; shown 360 to 720 pixels high, strips lower.
        heading: Text above the frame.
        bars: Most likely classes.
        overlay: Picture of the frame's size.
        legend: Text above the overlay.

    Returns:
        RGB (height, width, 3), uint8; both even, as MPEG-4 needs them.
    """
    pictures = [frame] if overlay is None else [frame, overlay]
    scale = min(_enlargement(frame), MAX_HEIGHT / len(frame))
    height, width = (2 * round(n * scale / 2) for n in frame.shape[:2])
    left = width * len(pictures)
    rows = sum(LINE * (len(group.classes) + 1) + LINE // 2 for group in bars)
    tall = max(MARGIN + height, rows)
    image = np.full((tall + tall % 2, left + PANEL, 3), DARK, np.uint8)
    for i, (picture, text) in enumerate(zip(pictures, (heading, legend), strict=False)):
        x = i * width
        _write(image, text, (x + 8, MARGIN - 8), width - 16)
        image[MARGIN : MARGIN + height, x : x + width] = cv2.resize(picture, (width, height))
    panel, base = image[:, left:], MARGIN - 8
    for group in bars:
        _write(panel, group.heading, (8, base), PANEL - 16, GRAY)
        base += LINE
        for name, probability in group.classes:
            end = 8 + max(1, round((PANEL - 16) * (probability or 0)))
            cv2.rectangle(panel, (8, base - 16), (end, base + 5), BLUE, -1)
            text = name if probability is None else f"{probability:4.0%} {name}"
            _write(panel, text, (12, base), PANEL - 24)
            base += LINE
        if group.threshold is not None:
            x, rows = 8 + round((PANEL - 16) * group.threshold), LINE * len(group.classes)
            cv2.line(panel, (x, base - rows - 16), (x, base - LINE + 5), GRAY, 1)
        base += LINE // 2
    return image


def draw_boxes(frame: np.ndarray, predictions: Sequence[Prediction]) -> np.ndarray:
    """Draw boxes, each with up to 3 classes of a probability of at least 0.5, or the likeliest.

    With a track, its number is before the classes, and its color is that of the number.

    Args:
        frame: RGB (H, W, 3), uint8; enlarged to a height of 360 pixels.
        predictions: Predictions of boxes.

    Returns:
        RGB (height, width, 3), uint8; both even.
    """
    scale = _enlargement(frame)
    height, width = (2 * round(n * scale / 2) for n in frame.shape[:2])
    image = cv2.resize(frame, (width, height))
    for prediction in predictions:
        left, top, right, bottom = prediction.box or (0.0, 0.0, 1.0, 1.0)
        x1, x2 = round(left * width), round(right * width)
        y1, y2 = round(top * height), round(bottom * height)
        color = BLUE if prediction.track is None else COLORS[prediction.track % len(COLORS)]
        cv2.rectangle(image, (x1, y1), (x2, y2), color, 2)
        person = "" if prediction.track is None else f"{prediction.track}: "
        (best,) = prediction.classes(3).values()
        threshold = prediction.task.threshold or 0.0
        named = [(name, score) for name, score in best if score >= threshold] or best[:1]
        for line, (name, probability) in enumerate(named):
            text, top_y = f"{person}{name} {probability:.0%}", y1 + 16 * line
            file, drawn = find_font(_line(text))
            wide = round(_font(file, SMALL_TEXT).getlength(drawn) + 1)
            cv2.rectangle(image, (x1, top_y), (x1 + wide + 6, top_y + 16), color, cv2.FILLED)
            _write(image, text, (x1 + 3, top_y + 12), wide, size=SMALL_TEXT)
    return image


def _enlargement(frame: np.ndarray) -> float:
    return max(1.0, min(MIN_HEIGHT / len(frame), MAX_WIDTH / frame.shape[1]))


def _write(
    image: np.ndarray,
    text: str,
    place: tuple[int, int],
    width: int,
    color: tuple = WHITE,
    size: int = TEXT,
) -> None:
    """Write a line on an image, in place, from the left of its baseline, small enough to fit."""
    x, y = place
    file, line = find_font(_line(text))
    smaller = min(1, width / max(_font(file, size).getlength(line), 1))
    top = max(y - size, 0)
    part = image[top : y + size // 2, x : x + width]
    if part.size:
        picture = Image.fromarray(np.ascontiguousarray(part))
        font = _font(file, max(int(size * smaller), 1))
        ImageDraw.Draw(picture).text((0, y - top), line, fill=color, font=font, anchor="ls")
        part[:] = np.asarray(picture)


def _line(text: str) -> str:
    """Return a text as a line that can be drawn; names of files may be anything."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


@lru_cache
def _font(file: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(file, size)

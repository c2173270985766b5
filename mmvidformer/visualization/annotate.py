"""Annotated frames of a video: the most likely classes, what the model attends to, and boxes."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from tqdm import tqdm

from mmvidformer.apis import Capture, Prediction, StreamFrame
from mmvidformer.sinks.fonts import find_font
from mmvidformer.tasks.prediction import Bars
from mmvidformer.video.writer import VideoOutput

PANEL = 300  # width of the panel with the classes
LINE, MARGIN = 24, 28
TEXT, SMALL_TEXT = 14, 12  # pixels of a letter, and of those at boxes
MIN_HEIGHT, MAX_HEIGHT = 360, 720  # of the frame; letters keep their size
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


def prediction_bars(prediction: Prediction, k: int = 5, heading: str | None = None) -> list[Bars]:
    """The k most likely classes of each output; the default heading is the seconds of the part."""
    if heading is None:
        part = prediction.seconds
        heading = f"{part[0]:.1f} to {part[1]:.1f} s" if part else "whole video"
    return prediction.task.bars(prediction, k, heading)


def stream_bars(frame: StreamFrame, k: int = 5, ahead: float = 1.0) -> list[Bars]:
    """The k most likely classes of each output, and the next action by the time ahead.

    If the model anticipates at several times, the classes are those nearest to ``ahead`` seconds.
    """
    shown = frame.predictions[0]
    if not shown.task.is_about_future:
        is_past = shown.so_far and shown.task.has_one_class
        return prediction_bars(shown, k, "so far" if is_past else "now")
    if shown.ahead is None:
        return [_next_bars(shown, name, k) for name in shown.scores]
    shown = min(frame.predictions, key=lambda prediction: abs(prediction.ahead - ahead))
    rows = []
    for prediction in frame.predictions:
        _, label, probability = prediction.top(1, "action")[0]
        rows.append((f"{prediction.ahead:.2f} s {label}", probability))
    by_time = Bars("action, by seconds ahead", rows)
    return [by_time, *(_next_bars(shown, name, k) for name in shown.scores)]


def _next_bars(prediction: Prediction, name: str, k: int) -> Bars:
    when = "" if prediction.ahead is None else f" in {prediction.ahead:.2f} s"
    rows = [(label, probability) for _, label, probability in prediction.top(k, name)]
    return Bars(f"next {name}{when}", rows)


def annotate_frame(
    frame: np.ndarray,
    heading: str,
    bars: Sequence[Bars],
    overlay: np.ndarray | None = None,
    legend: str = "",
    past: Sequence[tuple[np.ndarray, str]] = (),
    columns: int = 0,
) -> np.ndarray:
    """Draw an image: the frame, an overlay beside it, past frames below, classes at the right.

    The size of an image depends on the size of the frame, the number of bars and ``columns``.

    Args:
        frame: RGB (H, W, 3), uint8; shown 360 to 720 pixels high.
        heading: Text above the frame.
        bars: Most likely classes.
        overlay: Picture of the frame's size.
        legend: Text above the overlay.
        past: Past frames with a text each, oldest first; drawn from the right.
        columns: Number of past frames that there is room for.

    Returns:
        RGB (height, width, 3), uint8; both even, as MPEG-4 needs them.
    """
    pictures = [frame] if overlay is None else [frame, overlay]
    scale = min(max(1.0, MIN_HEIGHT / len(frame)), MAX_HEIGHT / len(frame))
    height, width = (2 * round(n * scale / 2) for n in frame.shape[:2])
    left = width * len(pictures)
    small = left // columns if columns else 0
    below = round(small * height / width)
    rows = sum(LINE * (len(group.classes) + 1) + LINE // 2 for group in bars)
    tall = max(MARGIN + height + below + (LINE if columns else 0), rows)
    image = np.full((tall + tall % 2, left + PANEL, 3), DARK, np.uint8)
    for i, (picture, text) in enumerate(zip(pictures, (heading, legend), strict=False)):
        x = i * width
        _write(image, text, (x + 8, MARGIN - 8), width - 16)
        image[MARGIN : MARGIN + height, x : x + width] = cv2.resize(picture, (width, height))
    for i, (picture, text) in enumerate(past):
        x, y = left - (len(past) - i) * small, MARGIN + height
        picture = cv2.resize(picture, (small - 2, below - 2))
        image[y + 2 : y + below, x + 1 : x + small - 1] = picture
        _write(image, text, (x + 4, y + below + LINE - 8), small - 8)
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


def annotate_video(
    video: Path,
    predictions: Sequence[Prediction],
    target: str | Path | None = None,
    title: str | None = None,
    k: int = 5,
) -> bool:
    """Write and show a video with its predictions; False if the window was closed.

    Args:
        video: The file.
        predictions: Predictions of its windows, steps, segments or boxes, or of the whole.
        target: File to write (.mp4).
        title: Title of a window to show.
        k: Number of classes, except of boxes.
    """
    with Capture(video) as source, VideoOutput(target, source.fps, title, video) as output:
        frames = tqdm(source.frames(), total=source.total, unit="frame", leave=False, disable=None)
        for number, seconds, pixels in frames:
            shown = predictions and predictions[0].task.shown_at(predictions, seconds)
            if not predictions or predictions[0].box:
                image = draw_boxes(pixels, shown)
            else:
                bars = [bar for prediction in shown for bar in prediction_bars(prediction, k)]
                image = annotate_frame(pixels, f"{seconds:.2f} s, frame {number}", bars)
            if not output.add(image, seconds):
                return False
    return True


def draw_boxes(frame: np.ndarray, predictions: Sequence[Prediction], k: int = 3) -> np.ndarray:
    """Draw boxes and their classes with a probability of at least 0.5, or the most likely one.

    With a track, its number is before the classes, and its color is that of the number.

    Args:
        frame: RGB (H, W, 3), uint8; enlarged to a height of 360 pixels.
        predictions: Predictions of boxes.
        k: Largest number of classes of a box.

    Returns:
        RGB (height, width, 3), uint8; both even.
    """
    scale = max(1.0, MIN_HEIGHT / len(frame))
    height, width = (2 * round(n * scale / 2) for n in frame.shape[:2])
    image = cv2.resize(frame, (width, height))
    for prediction in predictions:
        left, top, right, bottom = prediction.box
        x1, x2 = round(left * width), round(right * width)
        y1, y2 = round(top * height), round(bottom * height)
        color = BLUE if prediction.track is None else COLORS[prediction.track % len(COLORS)]
        cv2.rectangle(image, (x1, y1), (x2, y2), color, 2)
        person = "" if prediction.track is None else f"{prediction.track}: "
        best = prediction.top(k)
        named = [row for row in best if row[2] >= prediction.task.threshold] or best[:1]
        for line, (_, name, probability) in enumerate(named):
            text, top_y = f"{person}{name} {probability:.0%}", y1 + 16 * line
            file, drawn = find_font(_line(text))
            wide = round(_font(file, SMALL_TEXT).getlength(drawn) + 1)
            cv2.rectangle(image, (x1, top_y), (x1 + wide + 6, top_y + 16), color, cv2.FILLED)
            _write(image, text, (x1 + 3, top_y + 12), wide, size=SMALL_TEXT)
    return image


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
        options = dict(fill=color, font=_font(file, max(int(size * smaller), 1)), anchor="ls")
        ImageDraw.Draw(picture).text((0, y - top), line, **options)
        part[:] = np.asarray(picture)


def _line(text: str) -> str:
    """Return a text as a line that can be drawn; names of files may be anything."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


@lru_cache
def _font(file: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(file, size)

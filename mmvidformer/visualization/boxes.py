"""Boxes with their classes, drawn into a video."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import cv2
import numpy as np

from mmvidformer.apis import Prediction, Recognizer
from mmvidformer.apis.detector import PersonDetector
from mmvidformer.tasks.boxes import read_boxes
from mmvidformer.visualization.annotate import BLUE, MIN_HEIGHT, THRESHOLD, WHITE

SPAN = 0.5  # seconds before and after a moment in which its boxes are drawn
load_detector = cache(PersonDetector)


def classify_boxes(
    recognizer: Recognizer, video: Path, boxes: Path | str
) -> dict[int, list[Prediction]]:
    """Classify boxes of a video, by their moment: those of a csv file in AVA's format, or persons'.

    If ``boxes`` is ``'persons'``, a detector finds them at each whole second.
    """
    if str(boxes) == "persons":
        reader = recognizer.pipeline.open(video)["video_reader"]
        moments = load_detector(recognizer.device).moments(reader)
    else:
        rows = read_boxes(boxes).items()
        moments = {second: list(each) for (name, second), each in rows if name == video.stem}
    return {second: recognizer.boxes(video, second, each) for second, each in moments.items()}


def draw_boxes(frame: np.ndarray, predictions: Sequence[Prediction], k: int = 3) -> np.ndarray:
    """Draw boxes and their classes with a probability of at least 0.5, or the most likely one.

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
    for one in predictions:
        x1, y1, x2, y2 = (round(n * m) for n, m in zip(one.box, (width, height) * 2, strict=True))
        cv2.rectangle(image, (x1, y1), (x2, y2), BLUE, 2)
        top = one.top(k)
        named = [row for row in top if row[2] >= THRESHOLD] or top[:1]
        for line, (_, name, probability) in enumerate(named):
            text, font = f"{name} {probability:.0%}", (cv2.FONT_HERSHEY_SIMPLEX, 0.45)
            wide, top_y = cv2.getTextSize(text, *font, 1)[0][0], y1 + 16 * line
            cv2.rectangle(image, (x1, top_y), (x1 + wide + 6, top_y + 16), BLUE, cv2.FILLED)
            cv2.putText(image, text, (x1 + 3, top_y + 12), *font, WHITE, 1, cv2.LINE_AA)
    return image


def boxes_at(moments: Mapping[int, Sequence[Prediction]], seconds: float) -> Sequence[Prediction]:
    """Return the predictions of the moment that is at most half a second away from a time."""
    return next((one for moment, one in moments.items() if abs(moment - seconds) <= SPAN), ())

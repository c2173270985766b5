"""Boxes with their classes, drawn into a video."""

import numpy as np

from mmvidformer.apis import Prediction
from mmvidformer.sinks.annotate import BLUE, draw_boxes
from mmvidformer.tasks.table import find_task


def test_boxes_are_where_they_should_be() -> None:
    """A frame of 180 x 240 pixels is shown twice as large."""
    row, names = {"class": np.array([0.25, 0.75])}, {"class": ["walk", "sit"]}
    one = Prediction(row, row, names, task=find_task("boxes"), box=(0.25, 0.5, 0.75, 0.75))
    image = draw_boxes(np.zeros((180, 240, 3), np.uint8), [one])
    assert image.shape == (360, 480, 3)
    blue = np.argwhere((image == BLUE).all(axis=-1))
    (top, left), (bottom, right) = blue.min(axis=0), blue.max(axis=0)
    assert np.abs([left - 120, top - 180, right - 360, bottom - 270]).max() <= 1
    outside = np.ones(image.shape[:2], bool)
    outside[178:273, 118:363] = False
    assert not image[outside].any()
    assert (image[185:200, 122:200] > 200).any()  # the name

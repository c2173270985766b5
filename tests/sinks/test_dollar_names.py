"""Names of files and classes with a $, which is no formula in any picture."""

import io
from collections.abc import Callable

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text

from lab.attention_matrices import draw_matrices
from lab.plot.curves import TrainingLog, draw_training
from lab.plot.masked import ROWS, draw_masked
from lab.plot.tsne import draw_classes
from lab.plot.views import draw_views
from lab.receptive_field import Field, draw_receptive_field
from mmvidformer.apis import Prediction
from mmvidformer.sinks.heatmaps import HeatStrip, draw_strips
from mmvidformer.sinks.scores import draw_confusion
from mmvidformer.sinks.timeline import draw_timeline
from mmvidformer.tasks.table import find_task

FILE, NAMES = "price_$5_to_$9.mp4", ["a$_b$", "$\\c$"]
COUNTS, PIXELS = np.array([[2, 1], [1, 2]]), np.zeros((2, 8, 8, 3), np.uint8)
WINDOWS = [
    Prediction(
        {"class": None},
        {"class": np.array([p, 1 - p])},
        {"class": NAMES},
        FILE,
        (i, i + 2),
        task=find_task("classes"),
    )
    for i, p in enumerate((0.2, 0.9))
]
STRIP = HeatStrip(FILE, PIXELS, np.ones((2, 8, 8)), NAMES, NAMES[0])
LOG = TrainingLog({"loss": {1.0: 2.0}}, {NAMES[0]: {1.0: 0.5}}, "epoch")
FIELD = Field(NAMES[0], torch.ones(1, 2, 2), None)


@pytest.mark.parametrize(
    ("draw", "count"),
    [
        (lambda: draw_timeline(WINDOWS, FILE, truth=[(0, 1, NAMES[0])]), 3),
        (lambda: draw_classes(np.eye(2), np.arange(2), NAMES, FILE), 3),
        (lambda: draw_confusion(COUNTS, NAMES, FILE), 3),
        (lambda: draw_views({FILE: {1: 0.5}}, NAMES[0], NAMES[1]), 3),
        (lambda: draw_training({FILE: LOG}), 2),
        (lambda: draw_strips([STRIP]), 3),
        (lambda: draw_masked(dict.fromkeys(ROWS, PIXELS), FILE), 1),
        (lambda: draw_matrices([(NAMES[0], torch.ones(1, 1, 2, 2))], title=FILE), 2),
        (lambda: draw_receptive_field([FIELD], None, FILE), 2),
    ],
)  # fmt: skip
def test_a_dollar_is_drawn_as_it_is(draw: Callable[[], Figure], count: int) -> None:
    figure = draw()
    figure.savefig(io.BytesIO())
    texts = [text for text in figure.findobj(Text) if "$" in text.get_text()]
    assert len({text.get_text() for text in texts}) == count
    assert not any(text.get_parse_math() for text in texts)

"""Strips and pages of what is looked back at."""

import numpy as np
import pytest
import torch

from mmvidformer.visualization import Bars, LookBack, StateWeights, StreamPages, draw_look_back

RED = np.array([255, 0, 0])


def attention() -> StateWeights:
    """Two states; of the second only the upper left place counts."""
    places = torch.zeros(2, 2, 2)
    places[1, 0, 0] = 1.0
    return StateWeights(torch.tensor([0.2, 0.8]), places)


def frames(count: int) -> np.ndarray:
    """Grey frames of 40 x 60 pixels, each lighter than the one before."""
    levels = 60 * np.arange(1, count + 1, dtype=np.uint8)
    return np.broadcast_to(levels[:, None, None, None], (count, 40, 60, 3)).copy()


def test_a_strip_shows_weights_frames_and_heat() -> None:
    moments = [
        LookBack("late", frames(3), ["0 s", "1 s", "2 s"], attention()),
        LookBack("early", frames(2), ["0 s", "1 s"], StateWeights(*(x[1:] for x in attention()))),
    ]
    figure = draw_look_back(moments)
    late, early = figure.subfigs
    assert late.get_suptitle() == "late"
    grid = np.array(late.axes[:9]).reshape(3, 3)
    assert [axis.patches[0].get_height() for axis in grid[0, :2]] == pytest.approx([0.2, 0.8])
    assert not grid[0, 2].patches
    shown = [axis.images[0].get_array()[0, 0, 0] for axis in grid[1]]
    # Faded to white by the weight against the largest; the current frame is not.
    assert shown == [round(255 - (1 / 8 + 7 / 8 / 4) * (255 - 60)), 120, 180]
    heat = [axis.images[0].get_array().astype(int) for axis in grid[2]]
    assert heat[1][0, 0] @ RED > heat[1][-1, -1] @ RED  # hot where its weight is 1
    np.testing.assert_array_equal(heat[0][0, 0], heat[0][-1, -1])
    assert [axis.get_title() for axis in grid[1]] == ["0 s", "1 s", "now: 2 s"]
    grid = np.array(early.axes[:9]).reshape(3, 3)
    assert not grid[1, 0].images and grid[1, 1].images  # at the right


BARS = [Bars("next verb", [("put", 0.5), ("take", 0.25)])]


def test_a_page_shows_classes_and_the_past() -> None:
    pages = StreamPages((40, 60), BARS, past=2, min_height=40)
    width, height = pages.size
    first, second, third = (
        pages.draw(frame, "0 s", BARS, found)
        for frame, found in zip(frames(3), [None, None, attention()], strict=True)
    )
    assert first.shape == second.shape == (height, width, 3)
    picture, right = third[28:68, :60], third[28:68, 60:120]
    assert (picture == 180).all()
    assert (first[28:68, 60:120] == 60).all()  # nothing to look back at
    # 0.8 of the last state's upper left place, none of the lower right one.
    assert right[0, 0].astype(int) @ RED > right[-1, -1].astype(int) @ RED
    thumbs = third[68:108]
    assert (thumbs[5, 5], thumbs[5, 65]) == (pytest.approx(188, abs=1), pytest.approx(120, abs=1))
    lengths = [(third[y, 120:, 2] > 150).sum() for y in (28 - 8 + 24 - 15, 28 - 8 + 48 - 15)]
    assert lengths[0] == pytest.approx(2 * lengths[1], abs=3)


def test_pages_are_as_high_as_their_classes_need() -> None:
    many = [Bars("x", [(str(i), 0.1) for i in range(20)])] * 2
    pages = StreamPages((40, 60), many, min_height=40)
    assert pages.size[1] > 2 * 20 * 24
    page = pages.draw(frames(1)[0], "", many)
    assert page[-60:, 60:].max() > 150  # the last class is there


def test_attention_to_frames_that_were_not_drawn_is_refused() -> None:
    pages = StreamPages((40, 60), BARS, past=2)
    with pytest.raises(ValueError, match="attention to 2 states, but 0 frames were drawn"):
        pages.draw(frames(1)[0], "", BARS, attention())

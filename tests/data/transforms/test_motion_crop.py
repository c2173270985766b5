"""Crops around what moves."""

import numpy as np
import pytest

from mmvidformer.data.transforms.motion_crop import CropToMotion


def draw_clip(size: tuple[int, int], corner: tuple[int, int], side: int = 16) -> list[np.ndarray]:
    """Frames with noise, and a square that blinks at a place."""
    generator = np.random.RandomState(0)
    frames = []
    for number in range(6):
        frame = generator.randint(100, 104, (*size, 3)).astype(np.uint8)
        top, left = corner
        frame[top : top + side, left : left + side] = 250 * (number % 2)
        frames.append(frame)
    return frames


@pytest.mark.parametrize("size", [(120, 160), (240, 100), (90, 90)])
@pytest.mark.parametrize("corner", [(0, 0), (60, 70), (70, 20)])
def test_what_moves_is_inside(size, corner) -> None:
    frames = draw_clip(size, corner)
    result = CropToMotion().transform({"imgs": frames, "label": 3})
    top, left, side = CropToMotion().find_square(frames)
    assert side == int(0.4 * min(size)) and result["img_shape"] == (side, side)
    assert top - 2 <= corner[0] and corner[0] + 16 <= top + side + 2
    assert left - 2 <= corner[1] and corner[1] + 16 <= left + side + 2
    assert all(image.shape == (side, side, 3) for image in result["imgs"])
    np.testing.assert_array_equal(
        result["imgs"][1], frames[1][top : top + side, left : left + side]
    )
    assert result["label"] == 3


def test_motion_everywhere_takes_a_larger_square() -> None:
    frames = [np.full((100, 150, 3), 200 * (number % 2), np.uint8) for number in range(4)]
    assert CropToMotion().find_square(frames)[2] == 100
    assert CropToMotion(covered=0.3).find_square(frames)[2] == 75  # of 37.5%


def test_a_still_clip_and_one_frame() -> None:
    for count in (1, 3):
        frames = [np.full((100, 150, 3), 80, np.uint8)] * count
        assert CropToMotion().find_square(frames)[2] == 100

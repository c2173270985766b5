"""Clips of a moving camera: what they show, and their flips."""

from itertools import pairwise

import cv2
import numpy as np
import pytest

from lab.synthetic.camera.clips import add_object, draw_clip, film
from lab.synthetic.camera.dataset import CameraMotionDataset
from lab.synthetic.camera.paths import CLASSES, EDGE, FASTEST, FPS, class_of, draw_velocity
from lab.synthetic.camera.symmetry import SYMMETRIES, flip_clip, flip_velocity
from lab.synthetic.camera.textures import SIDE, texture
from mmvidformer.registry import DATASETS

SWAPPED = {
    "horizontal": {"pan": ("left", "right"), "roll": ("clockwise", "counter-clockwise")},
    "vertical": {"tilt": ("up", "down"), "roll": ("clockwise", "counter-clockwise")},
    "reverse": {
        "pan": ("left", "right"),
        "tilt": ("up", "down"),
        "zoom": ("in", "out"),
        "roll": ("clockwise", "counter-clockwise"),
    },
}


def swapped(name: str, symmetry: str) -> str:
    kind, _, way = name.partition(" ")
    if symmetry == "transpose":
        others = {"pan left": "tilt up", "pan right": "tilt down"}
        others |= {new: old for old, new in others.items()}
        name = others.get(name, name)
        return swapped(name, "horizontal") if kind == "roll" else name
    ways = SWAPPED[symmetry].get(kind)
    return f"{kind} {ways[1 - ways.index(way)]}" if ways else name


def seen_velocity(frames: np.ndarray) -> np.ndarray:
    """Measure the velocity of a clip by an alignment of each frame with the next."""
    gray, steps, middle = [cv2.cvtColor(f, cv2.COLOR_RGB2GRAY) for f in frames], [], 31.5
    for first, last in pairwise(gray):
        points = cv2.goodFeaturesToTrack(first, 100, 0.01, 3)
        moved, found, _ = cv2.calcOpticalFlowPyrLK(first, last, points, None, winSize=(15, 15))
        old, new = points[found == 1] - middle, moved[found == 1] - middle
        affine, _ = cv2.estimateAffinePartial2D(new, old, ransacReprojThreshold=0.5)
        a = complex(affine[0, 0], affine[1, 0])
        steps.append([*affine[:, 2] / 64, -np.log(abs(a)), np.angle(a)])
    return np.mean(steps, axis=0) * FPS


@pytest.mark.parametrize("name", CLASSES)
def test_clips_show_their_velocity(name: str) -> None:
    for number in range(2):
        rng = np.random.default_rng(number)
        frames, velocity, _ = draw_clip(CLASSES.index(name), rng, hardness=0.0, pictures=[number])
        assert frames.shape == (8, 64, 64, 3) and frames.dtype == np.uint8
        assert CLASSES[class_of(velocity)] == name
        np.testing.assert_allclose(seen_velocity(frames) * EDGE, velocity * EDGE, atol=0.03)


@pytest.mark.parametrize("symmetry", SYMMETRIES)
@pytest.mark.parametrize("name", CLASSES)
def test_symmetries_swap_classes(name: str, symmetry: str) -> None:
    velocity = draw_velocity(CLASSES.index(name), np.random.default_rng(1))
    flipped = flip_velocity(velocity, symmetry)
    assert CLASSES[class_of(flipped)] == swapped(name, symmetry)
    np.testing.assert_array_equal(flip_velocity(flipped, symmetry), velocity)


@pytest.mark.parametrize("symmetry", SYMMETRIES)
def test_a_flipped_clip_is_a_clip_of_the_flipped_path(symmetry: str) -> None:
    steps = np.random.default_rng(0).normal([0.02, -0.03, 0.02, 0.04], 0.01, (6, 4))
    picture, center = texture(3), 60 + 100j
    frames = film(picture, steps, center, 80, 32)
    flipped = flip_clip(frames, symmetry)
    np.testing.assert_array_equal(flip_clip(flipped, symmetry), frames)
    if symmetry == "reverse":
        steps = steps[::-1]
    else:
        picture = flip_clip(picture[None], symmetry)[0]
        x, y, far = center.real, center.imag, SIDE - 1
        center = {
            "horizontal": complex(far - x, y),
            "vertical": complex(x, far - y),
            "transpose": complex(y, x),
        }[symmetry]
    expected = film(picture, flip_velocity(steps, symmetry), center, 80, 32)
    # OpenCV rounds places to 1/32 of a pixel.
    assert np.abs(flipped.astype(int) - expected).mean() < 1.5


def test_hard_clips() -> None:
    drawn = [draw_clip(1, np.random.default_rng(5), hardness=h)[0] for h in (0.0, 1.0, 1.0)]
    np.testing.assert_array_equal(drawn[1], drawn[2])
    assert np.abs(drawn[0].astype(int) - drawn[1]).mean() > 5


@pytest.mark.parametrize("size", [(88, 64), (112, 64), (64, 112)])
def test_objects_cover_as_much_of_wide_frames(size: tuple[int, int]) -> None:
    """About 5% each; objects of one size covered 40% less of a frame of 16:9."""

    def covered(width: int, height: int) -> float:
        shares = []
        for number in range(150):
            clip = np.full((8, height, width, 3), -1, np.int16)
            add_object(clip, np.zeros((7, 4)), texture(3), np.random.default_rng(number))
            shares.append((clip >= 0).mean())
        return float(np.mean(shares))

    assert covered(*size) == pytest.approx(covered(64, 64), rel=0.1)


@pytest.fixture
def dataset():
    def build(**options: object) -> CameraMotionDataset:
        pipeline = [
            dict(type="mmaction.FormatShape", input_format="NCTHW"),
            dict(type="mmaction.PackActionInputs", meta_keys=("velocity", "shake")),
        ]
        config = dict(
            type="lab.synthetic.camera.dataset.CameraMotionDataset",
            pipeline=pipeline,
            size=16,
            textures=2,
        )
        return DATASETS.build(config | options)

    return build


def test_dataset(dataset) -> None:
    clips = dataset(clips=18, frames=4, curriculum=(9, 18))
    assert len(clips) == 18 and clips.metainfo["classes"] == CLASSES
    sample = clips[10]
    assert sample["inputs"].shape == (1, 3, 4, 16, 16)
    assert sample["data_samples"].gt_label.tolist() == [1]
    assert class_of(sample["data_samples"].velocity) == 1
    assert sample["data_samples"].shake == clips.draw(10)[2]


def test_a_share_of_clips_is_slow_and_steady(dataset) -> None:
    def shares(steady: float) -> tuple[float, float]:
        """How many clips are fast, and how many shake."""
        clips = dataset(fastest=2, shakiest=0.1, steady=steady)
        velocities, shakes = zip(*(clips.draw(number)[1:] for number in range(180)), strict=True)
        speeds = np.abs(np.array(velocities) * EDGE).max(axis=1)
        return float(np.mean(speeds > FASTEST)), float(np.mean(np.array(shakes) > 0.02))

    assert shares(1.0) == (0.0, 0.0)
    for some, most in zip(shares(0.5), shares(0.0), strict=True):
        assert 0.3 * most < some < 0.7 * most


def test_copies_are_flips_of_one_drawing(dataset) -> None:
    clips = dataset(copies=16, seed=1)
    drawn = [clips.draw(i) for i in range(16)]
    assert len({class_of(velocity) for _, velocity, _ in drawn}) == 1  # the first drawing is static
    assert len({shake for *_, shake in drawn}) == 1
    assert len({frames.tobytes() for frames, *_ in drawn}) == 16
    assert len({np.sort(frames, axis=None).tobytes() for frames, *_ in drawn}) == 1
    assert len({class_of(clips.draw(i)[1]) for i in range(16, 32)}) == 4
    frames, velocity, _ = clips.draw(3)  # again, after another drawing
    np.testing.assert_array_equal(frames, drawn[3][0])
    np.testing.assert_array_equal(velocity, drawn[3][1])


@pytest.mark.parametrize("size", [(96, 64), (64, 96)])
def test_wide_clips_count_their_short_side(size: tuple[int, int]) -> None:
    """The square in the middle shows what a square clip shows."""
    steps = np.random.default_rng(0).normal([0.02, -0.03, 0.02, 0.04], 0.01, (6, 4))
    wide = film(texture(3), steps, 60 + 100j, 80, size)
    assert wide.shape == (7, *size[::-1], 3)
    top, left = (side // 2 - 32 for side in size[::-1])
    square = film(texture(3), steps, 60 + 100j, 80, 64)
    middle = wide[:, top : top + 64, left : left + 64].astype(int)
    assert np.abs(middle - square).mean() < 0.5
    hard, *_ = draw_clip(3, np.random.default_rng(1), size)
    assert hard.shape == (8, *size[::-1], 3)


def test_batches_have_one_size_each(dataset) -> None:
    sizes = [(16, 16), (24, 16)]
    clips = dataset(clips=96, copies=16, size=sizes, same_size=32)
    drawn = [clips.draw(number) for number in range(96)]
    shapes = [frames.shape[1:3] for frames, *_ in drawn]
    assert shapes == [(16, 16)] * 32 + [(16, 24)] * 32 + [(16, 16)] * 32
    # Wide clips are not transposed: eight flips of each drawing.
    content = [np.sort(frames, axis=None).tobytes() for frames, *_ in drawn[32:64]]
    assert [len({*content[first : first + 8]}) for first in (0, 8, 16, 24)] == [1] * 4
    assert len({*content}) == 4
    assert clips[40]["inputs"].shape == (1, 3, 8, 16, 24)

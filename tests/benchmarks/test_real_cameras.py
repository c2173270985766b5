"""Labels of real cameras: they agree with generated films whose motion is known."""

import numpy as np
import pytest

from benchmarks.camera_tracking import (
    CLASSES,
    EDGE,
    MOMENTS,
    fit_step,
    label_windows,
    name_motion,
)
from mmvidformer.datasets.motion.camera import paths
from mmvidformer.datasets.motion.camera.clips import film
from mmvidformer.datasets.motion.camera.textures import texture


def scene(steps: np.ndarray) -> np.ndarray:
    return film(texture(5), steps, 128 + 128j, 192, 192)


@pytest.mark.parametrize("label", range(9))
def test_labels_are_the_classes_of_generated_films(label: int, write) -> None:
    """The camera moves at 0.2 widths per second, at 16 frames per second."""
    speeds = np.zeros(4)
    if label:
        part, positive = divmod(label - 1, 2)
        speeds[part] = 0.2 if positive else -0.2
    assert paths.class_of(speeds / EDGE) == label
    path = write(f"{label}.avi", scene(np.tile(speeds / EDGE / 16, (15, 1))))
    (window,) = label_windows(path)
    assert (window.label, window.reason) == (paths.CLASSES[label], "")
    np.testing.assert_allclose(window.speeds, speeds, atol=0.01)
    assert window.frames.shape == (8, 192, 192, 3)


def test_units_are_those_of_the_classes() -> None:
    assert CLASSES == paths.CLASSES
    np.testing.assert_array_equal(EDGE, paths.EDGE)
    assert MOMENTS == paths.FPS


def test_an_object_in_most_of_the_frame_leaves_no_label() -> None:
    frames = scene(np.zeros((1, 4)))
    other = film(texture(9), np.tile([0.03, 0, 0, 0], (1, 1)), 90 + 90j, 192, 192)
    frames[:, :, :100] = other[:, :, :100]
    gray = [frame.mean(axis=2).astype(np.uint8) for frame in frames]
    assert fit_step(gray) is None
    assert fit_step([gray[0], gray[0]]) is not None
    assert fit_step([0 * gray[0], 0 * gray[0]]) is None


@pytest.mark.parametrize(
    ("speeds", "found"),
    [
        ([0.2, 0.06, 0, 0], ("pan right", "")),
        ([0.2, 0.08, 0, 0], ("", "mixed motions")),
        ([0, 0, -0.06, 0], ("", "hardly moves")),
        ([0.02, 0, 0, -0.02], ("static", "")),
    ],
)
def test_rules(speeds: list[float], found: tuple[str, str]) -> None:
    steps = np.tile(speeds, (7, 1))
    assert name_motion(steps) == found


def test_steps_must_agree() -> None:
    steps = np.tile([0.2, 0, 0, 0], (7, 1))
    steps[3, 0] = -0.01
    assert name_motion(steps) == ("", "changes direction")
    still = np.zeros((7, 4))
    still[2:4, 1] = 0.06, -0.06
    assert name_motion(still) == ("", "shakes")

"""Paths of a camera: velocities, poses, and what the camera sees."""

import numpy as np
import pytest

from lab.synthetic.camera.paths import (
    CLASSES,
    EDGE,
    FASTEST,
    THRESHOLD,
    class_of,
    draw_steps,
    draw_velocity,
    integrate,
    measure_shake,
    window,
)
from mmvidformer.tasks.camera_motion import LEAST_SHAKE


@pytest.mark.parametrize(
    ("velocity", "name"),
    [
        ((0.2, 0.1, 0, 0), "pan right"),
        ((-0.2, 0.1, 0, 0.3), "pan left"),
        ((0, 0.06, 0, 0), "tilt down"),
        ((0, -0.06, 0.11, 0), "tilt up"),
        ((0.04, 0, 0.11, 0), "zoom in"),
        ((0, 0, -0.11, 0.1), "zoom out"),
        ((0, 0, 0, 1), "roll clockwise"),
        ((0, 0, 0, -1), "roll counter-clockwise"),
        ((0.049, -0.049, 0.099, 0.099), "static"),
    ],
)
def test_the_fastest_motion_is_the_class(velocity: tuple, name: str) -> None:
    assert CLASSES[class_of(np.array(velocity))] == name


@pytest.mark.parametrize("label", range(len(CLASSES)))
def test_velocities_of_a_class(label: int) -> None:
    rng = np.random.default_rng(label)
    drawn = np.array([draw_velocity(label, rng) for _ in range(300)])
    assert {class_of(velocity) for velocity in drawn} == {label}
    fastest = np.abs(drawn * EDGE).max(axis=1)
    low, high = (THRESHOLD, FASTEST) if label else (0, THRESHOLD)
    assert low <= fastest.min() < low + 0.002 and 0.95 * high < fastest.max() <= high


@pytest.mark.parametrize("shake", [0.0, 0.01])
def test_mean_of_the_steps_is_the_velocity(shake: float) -> None:
    velocity = np.array([0.3, -0.1, 0.2, -0.4])
    steps = draw_steps(velocity, 8, np.random.default_rng(0), shake)
    np.testing.assert_allclose(steps.mean(axis=0) * 8, velocity, atol=1e-12)
    assert (np.ptp(steps, axis=0).max() > 0.01) == bool(shake)


def test_shake_is_what_a_smooth_path_leaves_over() -> None:
    velocity, rng = np.array([0.4, -0.2, 0.3, 0.5]), np.random.default_rng(0)
    smooth = [measure_shake(draw_steps(velocity, 8, rng, 1e-12)) for _ in range(200)]
    # Only cameras that stop within a frame leave something over.
    assert np.median(smooth) < 1e-9 and max(smooth) < LEAST_SHAKE
    drawn = [measure_shake(draw_steps(velocity, 8, rng, 0.01)) for _ in range(400)]
    # Of four motions; of 8 degrees of freedom each, the path takes 4.
    assert np.sqrt(np.mean(np.square(drawn))) == pytest.approx(0.01 * np.sqrt(4 * 4 / 8), rel=0.05)
    # 3 Hz is a shake, 1 Hz is a motion.
    time = np.arange(8) / 8
    shakes = []
    for hertz in (1, 3):
        steps = np.zeros((7, 4))
        steps[:, 0] = np.diff(0.01 * np.sin(2 * np.pi * hertz * time))
        shakes.append(measure_shake(steps))
    assert shakes[0] < 0.15 * 0.01 / np.sqrt(2) and shakes[1] > 0.8 * 0.01 / np.sqrt(2)


def test_poses() -> None:
    a, b = integrate(np.array([[0.1, 0, 0, 0], [0, 0.2, 0, 0]]))
    np.testing.assert_allclose(a, 1)
    np.testing.assert_allclose(b, [-0.1, 0, 0.2j])
    a, b = integrate(np.array([[0, 0, np.log(2), 0], [0, 0, 0, np.pi / 2]]))
    # At twice the magnification the image shows half of the scene; x turns to y, which is down.
    np.testing.assert_allclose(a, [2, 1, 1j])
    np.testing.assert_allclose(b, 0)


def test_reversed_steps_lead_back() -> None:
    steps = np.random.default_rng(0).normal(0, 0.2, (6, 4))
    (a, b), (back_a, back_b) = integrate(steps), integrate(-steps[::-1])
    np.testing.assert_allclose(a[::-1], back_a)
    np.testing.assert_allclose(b[::-1], back_b, atol=1e-12)


def test_window() -> None:
    # The middle of 4 pixels is at 1.5; pixels at the edge are half a pixel inside.
    affine = window(1j, 0.5, center=100 + 50j, width=40, size=4)
    np.testing.assert_allclose(affine @ [1.5, 1.5, 1], [120, 50])
    np.testing.assert_allclose(affine @ [3, 1.5, 1], [120, 65])

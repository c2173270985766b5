"""The baseline of moments finds motions that begin, and their directions."""

import numpy as np

from benchmarks.moments import find_rises, flow_after, score_flow
from lab import generate

START = 8


def moving(step: tuple[int, int]) -> np.ndarray:
    """A square of noise that stands for 8 frames, and then moves."""
    square = np.random.default_rng(0).integers(60, 256, (16, 16), dtype=np.uint8)
    images = np.zeros((20, 64, 64), np.uint8)
    for number, image in enumerate(images):
        x, y = (24 + max(0, number - START) * side for side in step)
        image[y : y + 16, x : x + 16] = square
    return images


def test_a_rise_is_where_motion_begins_and_flow_tells_where_to() -> None:
    for step in ((2, 0), (-2, 0), (0, 2), (0, -2)):
        images = moving(step)
        places, shares = find_rises(images)
        assert places.tolist() == [START] and shares.tolist() == [1]
        flow = flow_after(images, START)
        assert np.dot(flow, step) > 0.5 * np.linalg.norm(flow) * 2
        assert np.abs(flow).argmax() == np.abs(step).argmax()
    assert not flow_after(images, 0)[:1].any()


def test_the_score_of_generated_videos(tmp_path) -> None:
    options = ["--preset", "starts", "--train", "6", "--val", "1", "--test", "2"]
    generate.main([str(tmp_path), *options])
    names = (tmp_path / "classes.txt").read_text().splitlines()
    scores = score_flow(tmp_path, names)
    assert 0.5 < scores["moments/mAP@1s"] <= 1

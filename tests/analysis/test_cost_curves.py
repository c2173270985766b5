import pytest

from mmvidformer.analysis.cost_curves import count_timesformer


@pytest.mark.parametrize(
    ("attention", "frames", "side", "giga"),
    [  # counted on the official code
        ("joint_space_time", 8, 224, 179.56),
        ("divided_space_time", 8, 224, 195.83),
        ("divided_space_time", 16, 448, 1702.69),
        ("divided_space_time", 96, 224, 2379.86),
    ],
)
def test_counts_are_the_official_codes(attention: str, frames: int, side: int, giga: float) -> None:
    # The official code projects a copy of the class token for each frame in the attention over
    # space (4 D^2 in 12 blocks); here it is projected once.
    copies = frames - 1 if attention == "divided_space_time" else 0
    counted = count_timesformer(attention, frames, side) + copies * 12 * 4 * 768**2
    assert counted / 1e9 == pytest.approx(giga, abs=0.01)

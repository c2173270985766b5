import pytest
import torch

from mmvidformer.layers import DropPath


@pytest.mark.parametrize(
    ("rule", "columns", "kept"), [("clip", 1, 1 / 0.6), ("group", 8, 1 / 0.6), ("unscaled", 1, 1.0)]
)
def test_fraction_and_value_of_kept_updates(rule: str, columns: int, kept: float) -> None:
    torch.manual_seed(0)
    factors = DropPath(0.4, rule)(torch.zeros(4000 // columns, 3), groups=8)
    assert factors.shape == (4000 // columns, columns)
    assert factors.unique().tolist() == pytest.approx([0.0, kept])
    assert (factors > 0).float().mean().item() == pytest.approx(0.6, abs=0.03)


@pytest.mark.parametrize("frames", [2, 4])
def test_frames_of_a_clip_share_a_draw(frames: int) -> None:
    torch.manual_seed(0)
    rows = torch.tensor([frames, 3] * 32)
    factors = DropPath(0.5)(torch.zeros(32 * (frames + 3), 1), clip_rows=rows)
    clips = factors.split(rows.tolist())
    assert all((clip == clip[0]).all() for clip in clips)
    assert 0 < sum(bool(clip[0] > 0) for clip in clips) < 64


def test_a_group_a_row_by_default() -> None:
    assert DropPath(0.5, "group")(torch.zeros(3, 2)).shape == (3, 1)


def test_nothing_is_dropped_in_evaluation_or_with_rate_zero() -> None:
    assert DropPath(0.5).eval()(torch.zeros(2, 1)) is None
    assert DropPath(0.0)(torch.zeros(2, 1)) is None


def test_printed() -> None:
    assert repr(DropPath(0.25, "group")) == "DropPath(rate=0.250, rule=group)"


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_wrong_rate_is_named(rate: float) -> None:
    with pytest.raises(ValueError, match=str(rate)):
        DropPath(rate)

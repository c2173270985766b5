"""Grids of flat position tables."""

import pytest
import torch

from mmvidformer.checkpoints.operations import grid_of, positions


@pytest.mark.parametrize(
    ("count", "given", "expected"),
    [(196, None, (1, 14, 14)), (24, (9, 4, 6), (1, 4, 6))],
)
def test_frame_grid(count: int, given: tuple, expected: tuple) -> None:
    assert grid_of(count, given) == expected


@pytest.mark.parametrize("given", [None, (1, 5, 6)])
def test_frame_grid_that_does_not_fit(given: tuple) -> None:
    with pytest.raises(ValueError, match="table of 24 vectors fits no"):
        grid_of(24, given)


def test_clip_grid() -> None:
    assert grid_of(16 * 196, tubelet=(2, 16, 16)) == (16, 14, 14)
    assert grid_of(4 * 4 * 6, (4, 4, 6), (2, 8, 8)) == (4, 4, 6)
    with pytest.raises(ValueError, match="does not fit the grid"):
        grid_of(96, (4, 4, 4), (2, 8, 8))
    with pytest.raises(ValueError, match="of clips of .32, 224, 224.; give the grid T,H,W"):
        grid_of(96, tubelet=(2, 8, 8))


def test_positions_are_split_frame_by_frame_and_back() -> None:
    table = torch.arange(1.0 + 2 * 3 * 4).reshape(1, -1, 1)
    op = positions((2, 3, 4), (2, 16, 16))
    tokens, token = op.forward(table)
    assert token.flatten().tolist() == [0.0]
    # t slowest, w fastest, after the class token's slot
    assert tokens[0, 1, 2, 3, 0] == 1 + 1 * 12 + 2 * 4 + 3
    assert torch.equal(op.backward(tokens, token)[0], table)


def test_class_token_without_slot_has_position_zero() -> None:
    tokens, token = positions(slot=False).forward(torch.ones(1, 4, 3))
    assert torch.equal(token, torch.zeros(1, 1, 3))
    assert torch.equal(tokens, torch.ones(1, 1, 2, 2, 3))

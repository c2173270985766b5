import pytest
import torch

from mmvidformer.layers import PATTERNS

GRID = (2, 3, 4)


@pytest.mark.parametrize("name", [n for n in PATTERNS if not hasattr(PATTERNS.build(n), "size")])
def test_groups_have_the_named_axes_and_ungroup_reverses_group(name: str) -> None:
    pattern = PATTERNS.build(name)
    coords = torch.cartesian_prod(*(torch.arange(n) for n in GRID)).view(1, *GRID, 1, 3)
    grouped = pattern.group(coords)
    assert grouped.shape[1] == pattern.num_groups(GRID)
    for i, axis in enumerate("thw"):
        per_group = grouped[0, :, 0, :, i]
        if axis in pattern.groups:
            assert (per_group == per_group[:, :1]).all()
        else:
            assert set(per_group[0].tolist()) == set(range(GRID[i]))
    torch.testing.assert_close(pattern.ungroup(grouped, GRID), coords)


# No option divides the grid, so that windows, blocks and residues are padded.
OPTIONS = {
    "window": {"size": (2, 2, 3), "shift": (0, 1, 2)},
}


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_spread_assigns_each_token_the_number_of_its_group(name: str) -> None:
    pattern = PATTERNS.build({"type": name, **OPTIONS.get(name, {})})
    groups = pattern.num_groups(GRID)
    numbers = torch.arange(2 * groups, dtype=torch.float).view(2, groups)
    spread = pattern.to_places(numbers, GRID).unflatten(1, GRID)
    grouped = pattern.group(spread[..., None]).flatten(0, 1).flatten(1)
    inside = pattern.group(torch.ones_like(spread)[..., None]).flatten(0, 1).flatten(1)
    torch.testing.assert_close(grouped, numbers.view(-1, 1) * inside)


def test_a_local_window_of_even_size_reaches_further_up_and_left() -> None:
    pattern = PATTERNS.build("local")
    places = torch.arange(1.0, 6)  # 0 is outside
    for shape in ((1, 1, 5, 1), (1, 1, 1, 5)):  # windows of 2 of 5 places
        tokens = places.view(*shape, 1, 1)
        keys = pattern.keys(tokens)[0].flatten(1)
        assert keys.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]
        assert (pattern.mask(tokens).flatten(1) == (keys > 0)).all()

"""The first losses of what finetune and pretrain make of a config are those written down."""

import pytest

from tests.golden_losses import read_losses
from tests.golden_tasks import FILE, RECIPES, train
from tests.test_golden_losses import OF_COLORS, pytestmark  # noqa: F401  (slow, of this processor)


@pytest.mark.parametrize("name", RECIPES)
def test_losses_are_those_written_down(name: str) -> None:
    assert train(name) == pytest.approx(read_losses(FILE)[name], rel=OF_COLORS)  # pictures round

"""Tallies of tests."""

from mmvidformer.finetune.tally import Tally


def without_groups(right: int, count: int) -> Tally:
    """A tally of videos that have nothing in common."""
    return Tally(((1, 1),) * right + ((0, 1),) * (count - right))

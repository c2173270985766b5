"""The order of samples."""

import pytest
from mmengine.dataset import DefaultSampler, sampler

from mmvidformer.engine.checkpointing.loop import ResumableSampler


@pytest.fixture
def ranks(monkeypatch):
    """Orders of samples, one for each of three ranks."""

    def orders(cls, skip=0, **kwargs):
        found = []
        for rank in range(3):
            monkeypatch.setattr(sampler, "get_dist_info", lambda rank=rank: (rank, 3))
            one = cls(range(10), seed=5, **kwargs)
            one.set_epoch(2)
            one.skip = skip
            found.append(list(one))
        return found

    return orders


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("round_up", [True, False])
@pytest.mark.parametrize("skip", [0, 2])
def test_order_is_mmengine_s_without_what_was_seen(ranks, shuffle, round_up, skip) -> None:
    settings = dict(shuffle=shuffle, round_up=round_up)
    expected = [order[skip:] for order in ranks(DefaultSampler, **settings)]
    assert ranks(ResumableSampler, skip, **settings) == expected


def test_repeated_samples_go_to_neighboring_ranks(ranks) -> None:
    """DeiT's repeated augmentation: each image three times, an epoch as long as without."""
    found = ranks(ResumableSampler, repeats=3)
    assert found[0] == found[1] == found[2]
    assert len(set(found[0])) == len(found[0]) == 4
    apart = [list(places) for places in zip(*ranks(ResumableSampler, repeats=2), strict=True)]
    flat = sum(apart, [])
    assert flat[::2] == flat[1::2] and len(set(flat)) == 6

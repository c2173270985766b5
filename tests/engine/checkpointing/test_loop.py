"""The order of samples."""

import logging
from types import SimpleNamespace

import pytest
from mmengine.dataset import DefaultSampler, sampler
from torch.utils.data import DataLoader

from mmvidformer.engine.checkpointing.loop import ResumableSampler, ResumableTrainLoop


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


@pytest.mark.parametrize(
    ("kind", "saved", "reason"),
    [
        (ResumableSampler, dict(epoch_length=5, seed=3), None),
        (ResumableSampler, dict(epoch_length=4, seed=3), "it has 5 batches, but had 4 when"),
        (ResumableSampler, {}, "its checkpoint does not say which samples were seen"),
        (DefaultSampler, dict(epoch_length=5, seed=3), "sampler is not of type"),
    ],
)
def test_an_epoch_continues_or_says_why_not(kind, saved, reason, caplog) -> None:
    """Seven steps were made: two of the second epoch of five, or three of one of four."""
    data = DataLoader(range(10), batch_size=2, sampler=kind(range(10), seed=0))
    loop = ResumableTrainLoop(SimpleNamespace(logger=logging.getLogger()), data, max_epochs=3)
    loop._epoch, loop._iter = 1, 7
    loop.load_sampling_state(saved)
    loop._find_seen(loop._saved)
    assert data.sampler.seed == saved.get("seed", 0)
    if reason is None:
        assert (loop._seen, loop.iter, caplog.messages) == (2, 7, [])
    else:
        assert (loop._seen, loop.iter) == (0, 5)
        assert caplog.messages[0].startswith("epoch 2 restarts after step 7: ")
        assert reason in caplog.messages[0]

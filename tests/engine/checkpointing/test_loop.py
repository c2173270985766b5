"""The order of samples."""

import logging
import pickle
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from mmengine.dataset import DefaultSampler, sampler
from mmengine.hooks import Hook
from torch.utils.data import DataLoader

from mmvidformer.engine.checkpointing.loop import (
    ResumableSampler,
    ResumableTrainLoop,
    digest_names,
)


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
        (ResumableSampler, dict(epoch_length=4, seed=3), "now 5, then 4"),
        (ResumableSampler, {}, "then unknown"),
        (DefaultSampler, dict(epoch_length=5, seed=3), "needs a 'mmvidformer.Resum"),
    ],
)
def test_an_epoch_continues_or_says_why_not(kind, saved, reason, caplog) -> None:
    """Seven steps were made: two of the second epoch of five, or three of one of four."""
    data = DataLoader(range(10), batch_size=2, sampler=kind(range(10), seed=0))
    loop = ResumableTrainLoop(SimpleNamespace(logger=logging.getLogger()), data, max_epochs=3)
    loop._epoch, loop._iter = 1, 7
    loop.saved = saved
    loop._find_seen()
    assert data.sampler.seed == saved.get("seed", 0)
    if reason is None:
        assert (loop._seen, loop.iter, caplog.messages) == (2, 7, [])
    else:
        assert (loop._seen, loop.iter) == (0, 5)
        assert caplog.messages[0].startswith("epoch 2 restarts after step 7: ")
        assert re.search(reason, caplog.messages[0])


class Listed:
    """A dataset of MMEngine's interface."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def get_data_info(self, place: int) -> dict:
        return dict(filename=self.paths[place])


@pytest.mark.parametrize(
    ("now", "warns"),
    [
        (["a.mp4", "b.mp4"], False),
        (["moved/a.mp4", "moved/b.mp4"], False),
        (["a.mp4", "c.mp4"], True),
        (["b.mp4", "a.mp4"], True),
    ],
)
def test_another_list_is_noticed(now, warns, caplog) -> None:
    def loop_of(*paths):
        data = DataLoader(Listed(*paths), batch_size=1, sampler=ResumableSampler(paths, seed=0))
        runner = SimpleNamespace(logger=logging.getLogger())
        return ResumableTrainLoop(runner, data, max_epochs=3)

    loop = loop_of(*now)
    loop.saved = loop_of("a.mp4", "b.mp4").describe_order()
    loop._find_seen()
    assert caplog.messages == warns * [
        "the training list has other videos than when the checkpoint was saved"
    ]


def test_long_lists_are_sampled_and_others_have_no_names() -> None:
    names = [f"{number}.mp4" for number in range(1000)]
    digest = digest_names(Listed(*names))
    assert digest != digest_names(Listed(*names[:-1])) != digest_names(Listed(*names[:-1], "b"))
    assert digest_names(range(10)) is None and digest_names(Listed()) == digest_names(Listed())


def test_indices_carry_the_seeds_of_their_draws(ranks) -> None:
    """They differ by position and epoch, and a skipped start or other ranks change none of them."""

    def seeds(epoch=2, skip=0):
        one = ResumableSampler(range(10), seed=5)
        one.set_epoch(epoch)
        one.skip = skip
        return {position: index.seed for position, index in enumerate(one, skip)}

    whole = seeds()
    assert len({*whole.values(), *seeds(epoch=3).values()}) == 20
    assert seeds(skip=4) == {k: v for k, v in whole.items() if k >= 4}
    for rank, indices in enumerate(ranks(ResumableSampler, round_up=False)):
        assert [one.seed for one in indices] == [whole[i] for i in range(rank, 10, 3)]
    copy = pickle.loads(pickle.dumps(indices[0]))
    assert (copy, copy.seed) == (indices[0], indices[0].seed)


@pytest.mark.parametrize("batch_size", [2, 6])
@pytest.mark.parametrize("by_epoch", [True, False])
@pytest.mark.parametrize("scale", [False, True])
def test_learning_rates_with_another_batch_are_those_of_an_undisturbed_run(
    toy, batch_size, by_epoch, scale
) -> None:
    """Resumed after the first of three epochs, with other numbers of steps than before."""
    schedule = [
        dict(type="LinearLR", start_factor=0.1, by_epoch=True, end=1),
        dict(type="CosineAnnealingLR", by_epoch=True, begin=1, end=3, T_max=2, eta_min=1e-5),
    ]
    for one in schedule if not by_epoch else ():
        one.update(convert_to_iter_based=True)
    scaling = dict(auto_scale_lr=dict(base_batch_size=4, enable=scale), param_scheduler=schedule)

    class Rates(Hook):
        def __init__(self):
            self.rates = []

        def before_train_iter(self, runner, batch_idx, data_batch=None):
            self.rates.append(runner.optim_wrapper.get_lr()["lr"][0])

    def rates(folder, size, **changes):
        hook = Rates()
        toy(folder, hooks=[hook], batch_size=size, **scaling, **changes).train()
        return hook.rates

    whole = rates("whole", batch_size)
    first = toy("first", batch_size=4, **scaling)
    first.train_loop._max_epochs = 3
    first.train()
    path = Path(first.work_dir) / "epoch_1.pth"
    rest = rates("rest", batch_size, load_from=str(path), resume=True)
    assert rest == pytest.approx(whole[-len(rest) :]) and len(rest) == 2 * (12 // batch_size)

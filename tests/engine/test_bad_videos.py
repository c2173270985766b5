"""The policy for bad videos in a run."""

import csv
import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from mmvidformer import get_config, list_models
from mmvidformer.datasets.decoding.safe_dataset import SafeDataset
from mmvidformer.engine.bad_videos import BadVideoHook


class Numbers:
    """The numbers 0 to 39; some cannot be read."""

    metainfo: dict = {}

    def __init__(self, bad=()):
        self.bad = set(bad)

    def __len__(self):
        return 40

    def __getitem__(self, idx):
        if idx in self.bad:
            raise OSError("cannot be read")
        return {"x": float(idx)}

    def get_data_info(self, idx):
        return {"filename": f"{idx}.mp4"}


class Wrapper(Numbers):
    """A dataset of a dataset, such as MMEngine's ``RepeatDataset``."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __getitem__(self, idx):
        return self.dataset[idx]


def loader_of(dataset, **options):
    options = {"num_workers": 0, **options}
    return dict(
        dataset=dataset,
        batch_size=4,
        collate_fn=dict(type="default_collate"),
        sampler=dict(type="mmvidformer.ResumableSampler", shuffle=False),
        **options,
    )


def hook(**policy):
    return dict(type="mmvidformer.BadVideoHook", time_limit=None, **policy)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_replaces_and_lists_bad_samples(toy, workers):
    runner = toy(
        hooks=[hook(max_bad_share=0.05)],
        train_dataloader=loader_of(Numbers({7, 33}), num_workers=workers),
    )
    runner.train()
    seen = [x for batch in runner.model.seen for x in batch]
    assert len(seen) == 3 * 40 and not {7.0, 33.0} & set(seen)
    with open(f"{runner.work_dir}/bad_videos_train.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["sample"] for row in rows] == ["7", "33"]
    assert rows[1]["path"] == "33.mp4" and rows[1]["reason"] == "there is no such file"


def test_too_large_a_share_ends_the_run(toy):
    runner = toy(hooks=[hook(max_bad_share=0.05)], train_dataloader=loader_of(Numbers({7, 8, 33})))
    with pytest.raises(RuntimeError, match=r"3 of 40 samples are bad, .*max_bad_share=0\.05"):
        runner.train()


def test_a_safe_dataset_in_the_config_keeps_its_policy(toy):
    safe = SafeDataset(Numbers({7}), on_bad_video="raise")
    for dataset in (safe, Wrapper(safe)):
        runner = toy(hooks=[hook()], train_dataloader=loader_of(dataset))
        with pytest.raises(Exception, match=r"7\.mp4: there is no such file"):
            runner.train()
        assert type(runner.train_dataloader.dataset) is type(dataset)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loop_whose_workers_run_already_starts_them_again(toy, monkeypatch, workers):
    monkeypatch.setattr("mmengine.runner.loops.time.sleep", lambda seconds: None)
    changes = dict(train_cfg=dict(type="IterBasedTrainLoop", max_iters=15), param_scheduler=[])
    for dataset in (Numbers({1}), SafeDataset(Numbers({1}), on_bad_video="resample")):
        runner = toy(
            hooks=[hook()], train_dataloader=loader_of(dataset, num_workers=workers), **changes
        )
        runner.train()
        assert list(runner.train_dataloader.dataset.bad_samples.known()) == [1]
        seen = [x for batch in runner.model.seen for x in batch]
        assert len(seen) == 60 and 1.0 not in seen and seen[2:40] == [*range(2, 40)]
        # The garbage collector would wait 5 s for the workers, as it ends their queues first.
        del runner.train_loop.dataloader_iterator._iterator


def test_how_the_dataset_of_a_loader_is_replaced():
    """If PyTorch allows it some day, or keeps the dataset elsewhere, the hook must follow."""
    loader = DataLoader(Numbers(), num_workers=2, persistent_workers=True, batch_size=None)
    with pytest.raises(ValueError, match="dataset attribute should not be set"):
        loader.dataset = Numbers()
    assert len(list(loader)) == 40  # its workers have the dataset as it is, and stay
    runner = SimpleNamespace(train_loop=SimpleNamespace(dataloader=loader))
    BadVideoHook(time_limit=None).before_train_epoch(runner)
    loader.dataset.dataset.bad = {3}
    assert isinstance(loader.dataset, SafeDataset) and loader.dataset.time_limit is None
    assert 3.0 not in [float(sample["x"]) for sample in loader]
    assert list(loader.dataset.bad_samples.known()) == [3]


@pytest.mark.parametrize("name", list_models()[::12])
def test_shipped_configs_have_the_hook_and_few_processes(name):
    """Each worker has a helper: workers of training must end before those of validation start."""
    cfg = get_config(name)
    assert cfg.default_hooks.bad_videos == dict(
        type="mmvidformer.BadVideoHook", on_bad_video="resample", max_bad_share=0.05, time_limit=60
    )
    for split in ("train", "val", "test"):
        loader = cfg[f"{split}_dataloader"]
        assert loader.num_workers <= 8 and not loader.get("persistent_workers")
        assert "SafeDataset" not in str(loader.dataset)
    assert not {"bad_videos", "video_backend"} & set(cfg)


def test_all_ranks_are_counted_together(in_processes):
    """40 samples, 3 bad ones for each of 2 ranks; 4 are allowed."""
    for result in in_processes(2, an_epoch_of_a_rank, [2, 3, 6, 7, 10, 11]):
        assert result == dict(read=20, own=3, known=6, error="6 of 40 samples are bad")


def test_ranks_share_what_they_found(in_processes):
    results = in_processes(2, an_epoch_of_a_rank, [0, 1, 2])
    assert results[0] == dict(read=20, own=2, known=3, error="")
    assert results[1] == dict(read=20, own=1, known=3, error="")


def an_epoch_of_a_rank(bad):
    """Train on half of the numbers as the hook sees it; report what happened."""
    rank = torch.distributed.get_rank()
    np.random.seed(0)  # what is read in place of bad samples
    part = range(rank, 40, 2)
    loader = DataLoader(Numbers(bad), sampler=part, batch_size=None)
    loop, logger = SimpleNamespace(dataloader=loader), logging.getLogger("test")
    runner = SimpleNamespace(train_loop=loop, work_dir=".", logger=logger)
    policy = BadVideoHook(max_bad_share=0.1, time_limit=None)
    policy.before_train_epoch(runner)
    read = len(list(loader))  # bad samples of the other rank may have been tried in place of own
    own = {*part} & {*loader.dataset.bad_samples.known()}
    result = dict(read=read, own=len(own), error="")
    try:
        policy.after_train_epoch(runner)
    except RuntimeError as error:
        result["error"] = str(error).partition(", ")[0]
    return {**result, "known": len(loader.dataset.bad_samples.known())}

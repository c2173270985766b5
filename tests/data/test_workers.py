"""Dataloader workers as the shipped configs start them."""

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import sampler as samplers
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from torch.utils.data import DataLoader

from mmvidformer import get_config
from mmvidformer.data.bad_videos import BAD, SafeDataset
from mmvidformer.video.errors import BadVideo, TooManyBadVideos
from tests.data.draws import Draws, Stuck
from tests.video.toys import Numbers

ROOT = Path(__file__).parents[2]


@pytest.fixture
def loader(monkeypatch):
    """Build the loader of a split of a shipped config, with other samples."""
    cfg = get_config("vivit_fe_motion")
    method = cfg.env_cfg.mp_cfg.mp_start_method
    monkeypatch.setattr(
        multiprocessing.context._default_context,
        "_actual_context",
        multiprocessing.get_context(method),
    )

    def build(split: str = "train", workers: int = 2, rank: int = 0):
        init_default_scope("mmvidformer")
        monkeypatch.setattr(samplers, "get_dist_info", lambda: (rank, 2))
        monkeypatch.setenv("RANK", str(rank))
        options = cfg[f"{split}_dataloader"].to_dict()
        options.update(
            dataset=SafeDataset(Draws()) if split == "train" else Draws(),
            batch_size=2,
            num_workers=workers,
            collate_fn=dict(type="default_collate"),
        )
        torch.manual_seed(3)  # equal in all processes, as MMEngine seeds them
        return Runner.build_dataloader(Config(options)._cfg_dict.to_dict(), seed=0)

    yield build
    end_processes()


def end_processes() -> None:
    for child in multiprocessing.active_children():
        child.kill()
        child.join()


def read(loader, epoch: int = 0, skip: int = 0) -> list[tuple[float, ...]]:
    """Draws of an epoch, by the position in it."""
    loader.sampler.set_epoch(epoch)
    loader.sampler.skip = skip
    return [tuple(row) for batch in loader for row in batch.tolist()]


def test_draws_differ_from_epoch_to_epoch_and_from_rank_to_rank(loader) -> None:
    """The workers are those of the first epoch; their number changes nothing."""
    first = loader()
    assert first.persistent_workers and first.multiprocessing_context is None
    epochs = [read(first, epoch) for epoch in range(2)]
    assert len({process.pid for process in multiprocessing.active_children()}) == 2
    other = read(loader(rank=1))
    drawn = [*itertools.chain(*epochs, other)]
    assert len(drawn) == 18
    for numbers in zip(*drawn, strict=True):  # of each generator
        assert len({*numbers}) == 18
    alone = loader(workers=1)
    assert read(alone) == epochs[0]
    assert read(alone, 1, skip=2) == epochs[1][2:]  # resumed after a batch


def test_draws_without_seeds_of_samples_differ_too(loader) -> None:
    """Validation, and training with other samplers."""
    ranks = [loader("val", rank=rank) for rank in range(2)]
    drawn = [row for one in ranks for epoch in range(2) for row in read(one, epoch)]
    assert len({*drawn}) == len(drawn) == 24


def test_native_code_that_hangs_ends_its_worker(loader) -> None:
    """The dataloader sees that at its timeout, or while it receives a batch."""
    stuck = loader(workers=1)
    stuck.worker_init_fn.keywords["sample_timeout"] = 1.0
    stuck.dataset.dataset = Stuck()
    object.__setattr__(stuck, "timeout", 10)
    stuck.sampler.shuffle = False
    with pytest.raises((RuntimeError, EOFError, ConnectionError)):
        read(stuck)
    (worker,) = stuck._iterator._workers
    worker.join(600)  # on a busy machine it may start after the timeout
    assert worker.exitcode == -signal.SIGALRM


SCRIPT = """
import multiprocessing, os, signal, sys
from torch.utils.data import DataLoader
from mmvidformer.data.workers import init_worker

if __name__ == "__main__":
    multiprocessing.set_start_method("forkserver")
    data = DataLoader(
        range(4), num_workers=2, persistent_workers=True, worker_init_fn=init_worker
    )
    batches = iter(data)
    next(batches)
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_workers_end_with_a_killed_parent(tmp_path) -> None:
    """With the start method forkserver, PyTorch's workers would stay for ever."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script],
        env=dict(os.environ, PYTHONPATH=path),
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    assert done.returncode == -signal.SIGKILL
    pids = [Path("/proc", pid, "cmdline") for pid in done.stdout.split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 60
    while any(pid.exists() and pid.read_bytes() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_workers_of_any_start_method_count_together():
    """Each of two workers has 5 of the 10 bad samples: only together are they too many."""
    data = SafeDataset(Numbers(40, range(10)), max_bad_share=0.2)
    loader = DataLoader(data, 4, num_workers=2, multiprocessing_context="forkserver", timeout=600)
    with pytest.raises(TooManyBadVideos, match="9 bad ones among"):
        list(loader)
    assert (data._status == BAD).sum() >= 9


def test_a_worker_names_the_bad_video_without_a_policy():
    loader = DataLoader(SafeDataset(Numbers(4, {2}), "raise"), num_workers=1, timeout=600)
    with pytest.raises(BadVideo, match=r"BadVideo: 2\.mp4: is bad"):
        list(loader)

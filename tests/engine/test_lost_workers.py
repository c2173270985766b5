"""A dataloader worker that hangs ends the run; PyTorch itself handles one that dies."""

import multiprocessing
import time
from pathlib import Path

import pytest


class Stuck:
    """Numbers, one of which takes a minute."""

    metainfo: dict = {}

    def __init__(self, woke: Path) -> None:
        self.woke = woke

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict:
        if index == 7:
            time.sleep(60)
            self.woke.touch()
        return {"x": float(index)}


def test_a_worker_that_hangs_ends_the_run(toy, monkeypatch, tmp_path: Path) -> None:
    """It is not waited for, and ends too."""
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.1)
    woke = tmp_path / "woke"
    loader = dict(
        dataset=Stuck(woke),
        batch_size=2,
        num_workers=1,
        timeout=1,
        collate_fn=dict(type="default_collate"),
        sampler=dict(type="mmvidformer.ResumableSampler", shuffle=False),
    )
    runner = toy(train_dataloader=loader)
    with pytest.raises(RuntimeError, match="timed out after 1 seconds"):
        runner.train()
    assert runner.iter <= 3
    for worker in multiprocessing.active_children():
        worker.join()
    assert not woke.exists()

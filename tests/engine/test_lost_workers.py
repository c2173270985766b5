"""A dataloader worker that hangs ends the run; PyTorch itself handles one that dies."""

import time

import pytest


class Stuck:
    """Numbers, one of which takes a minute."""

    metainfo: dict = {}

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict:
        if index == 7:
            time.sleep(60)
        return {"x": float(index)}


def test_a_worker_that_hangs_ends_the_run(toy, monkeypatch) -> None:
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.5)
    loader = dict(
        dataset=Stuck(),
        batch_size=2,
        num_workers=1,
        timeout=2,
        collate_fn=dict(type="default_collate"),
        sampler=dict(type="mmvidformer.ResumableSampler", shuffle=False),
    )
    runner = toy(train_dataloader=loader)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="timed out after 2 seconds"):
        runner.train()
    assert runner.iter <= 3
    assert time.monotonic() - start < 55

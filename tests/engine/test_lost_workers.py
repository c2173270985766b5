"""Workers of a data loader that die or hang end the run."""

import os
import signal
import time

import pytest


class Bad:
    """Numbers, one of which brings the worker into trouble."""

    metainfo: dict = {}

    def __init__(self, trouble: str) -> None:
        self.trouble = trouble

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict:
        if index == 7 and self.trouble == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if index == 7 and self.trouble == "hangs":
            time.sleep(60)
        return {"x": float(index)}


@pytest.mark.parametrize("trouble, message", [("dies", "killed by signal"), ("hangs", "timed out")])
def test_the_run_ends_with_an_error(toy, trouble: str, message: str) -> None:
    loader = dict(
        dataset=Bad(trouble),
        batch_size=2,
        num_workers=1,
        timeout=2 if trouble == "hangs" else 30,
        collate_fn=dict(type="default_collate"),
        sampler=dict(type="mmvidformer.ResumableSampler", shuffle=False),
    )
    runner = toy(train_dataloader=loader)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=message):
        runner.train()
    assert runner.iter <= 3  # a death is noticed at once
    assert time.monotonic() - start < 55

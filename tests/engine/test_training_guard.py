"""Runs that are told to stop."""

import os
import signal
from pathlib import Path

import pytest
import torch
from mmengine.hooks import Hook

from mmvidformer.engine.checkpointing.preemption import PreemptionHook
from mmvidformer.engine.checkpointing.resume import INTERRUPTED, latest_checkpoint

PREEMPTION = dict(type="mmvidformer.PreemptionHook")


class SignalAt(Hook):
    """Sends the own process a signal in a step, as a cluster does."""

    def __init__(self, step: int, number: int) -> None:
        self.step, self.number = step, number

    def before_train_iter(self, runner, batch_idx, data_batch=None) -> None:
        if runner.iter + 1 == self.step:
            os.kill(os.getpid(), self.number)


@pytest.fixture(autouse=True)
def own_signals():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    yield
    assert {number: signal.getsignal(number) for number in before} == before


@pytest.mark.parametrize("name, status", [("SIGTERM", 143), ("SIGUSR1", 138)])
@pytest.mark.parametrize("stop", [2, 3, 5])
def test_the_state_is_saved_and_resumed(toy, stop: int, name: str, status: int) -> None:
    whole = toy("whole")
    whole.train()
    cut = toy("cut", hooks=[SignalAt(stop, getattr(signal, name)), PREEMPTION])
    with pytest.raises(SystemExit) as end:
        cut.train()
    assert end.value.code == status
    latest = latest_checkpoint(cut.work_dir)
    assert Path(latest).name == INTERRUPTED
    rest = toy("cut", load_from=latest, resume=True)
    rest.train()
    assert cut.model.seen + rest.model.seen == whole.model.seen
    torch.testing.assert_close(rest.model.factor, whole.model.factor, rtol=0, atol=0)
    assert not (Path(rest.work_dir) / INTERRUPTED).exists()  # an epoch's checkpoint took its place


def test_accumulated_gradients_are_used_before_the_stop(toy) -> None:
    wrapper = dict(optimizer=dict(type="SGD", lr=1e-3), accumulative_counts=3)
    cut = toy(hooks=[SignalAt(4, signal.SIGTERM), PREEMPTION], optim_wrapper=wrapper)
    with pytest.raises(SystemExit):
        cut.train()
    assert torch.load(latest_checkpoint(cut.work_dir), weights_only=True)["meta"]["iter"] == 6


class SignalInValidation(Hook):
    def after_val_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if runner.iter == 6:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_stop_in_validation_saves_the_weights_that_are_trained(toy) -> None:
    """And not the averaged ones, which validation uses."""
    loader = dict(dataset=toy.dataset, batch_size=6, num_workers=0)
    loader.update(sampler=dict(type="DefaultSampler"), collate_fn=dict(type="default_collate"))
    ema = dict(type="EMAHook", momentum=0.5)
    validation = dict(val_dataloader=loader, val_cfg=dict(type="ValLoop"), val_evaluator=[])
    whole = toy("whole", hooks=[ema])
    whole.train()
    cut = toy(
        "cut",
        hooks=[ema, SignalInValidation(), PREEMPTION],
        checkpoint=dict(interval=5),
        **validation,
    )
    with pytest.raises(SystemExit):
        cut.train()
    rest = toy("cut", hooks=[ema], load_from=latest_checkpoint(cut.work_dir), resume=True)
    rest.train()
    assert rest.iter == 9 and len(rest.model.seen) == 3
    torch.testing.assert_close(rest.model.factor, whole.model.factor, rtol=0, atol=0)


def test_wrong_names_are_told() -> None:
    with pytest.raises(ValueError, match="'TERM'"):
        PreemptionHook(signals=["TERM"])

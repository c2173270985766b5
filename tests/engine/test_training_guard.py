"""Stopping on a signal and at a loss that is not finite, on one process and on two."""

import os
import signal
from pathlib import Path

import pytest
import torch
from mmengine.hooks import Hook
from mmengine.optim.optimizer import amp_optimizer_wrapper
from torch import distributed

from mmvidformer.engine.checkpointing.loop import stop_signals
from mmvidformer.engine.checkpointing.resume import INTERRUPTED, latest_checkpoint
from tests.engine.toys import BadAt, OnSecond, SignalAt, toy_runner

GUARD = dict(type="mmvidformer.TrainingGuardHook")
NAN = float("nan")


def load(path: str | Path) -> dict:
    return torch.load(path, weights_only=True)


@pytest.fixture(autouse=True)
def own_signals():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    yield
    assert {number: signal.getsignal(number) for number in before} == before


@pytest.mark.parametrize("name, status", [("SIGTERM", 143), ("SIGUSR1", 138)])
@pytest.mark.parametrize("stop", [1, 2, 3, 5])
def test_a_signal_saves_the_state_after_the_step(toy, stop, name, status) -> None:
    whole = toy("whole")
    whole.train()
    cut = toy("cut", hooks=[SignalAt(stop, getattr(signal, name)), GUARD])
    with pytest.raises(SystemExit) as exit_:
        cut.train()
    assert exit_.value.code == status
    latest = latest_checkpoint(cut.work_dir)
    assert Path(latest).name == INTERRUPTED
    assert load(latest)["meta"]["iter"] == stop
    rest = toy("cut", load_from=latest, resume=True)
    rest.train()
    assert cut.model.seen + rest.model.seen == whole.model.seen
    torch.testing.assert_close(rest.model.factor, whole.model.factor, rtol=0, atol=0)
    assert not (Path(rest.work_dir) / INTERRUPTED).exists()  # a regular checkpoint replaced it


def test_accumulated_gradients_are_used_before_the_stop(toy) -> None:
    wrapper = dict(optimizer=dict(type="SGD", lr=1e-3), accumulative_counts=3)
    cut = toy(hooks=[SignalAt(4, signal.SIGTERM), GUARD], optim_wrapper=wrapper)
    with pytest.raises(SystemExit):
        cut.train()
    assert load(latest_checkpoint(cut.work_dir))["meta"]["iter"] == 6


def test_schedules_by_epoch_resume_after_a_stop_in_the_last_step_of_an_epoch(toy) -> None:
    """The schedule must not have stepped yet, since the resumed run ends the epoch."""
    schedule = dict(param_scheduler=[dict(type="MultiStepLR", milestones=[1, 2], gamma=0.5)])
    whole = toy("whole", **schedule)
    whole.train()
    cut = toy("cut", hooks=[SignalAt(3, signal.SIGTERM), GUARD], **schedule)
    with pytest.raises(SystemExit):
        cut.train()
    rest = toy("cut", load_from=latest_checkpoint(cut.work_dir), resume=True, **schedule)
    rest.train()
    assert rest.optim_wrapper.get_lr() == whole.optim_wrapper.get_lr() == {"lr": [2.5e-4]}
    torch.testing.assert_close(rest.model.factor, whole.model.factor, rtol=0, atol=0)


class SignalInValidation(Hook):
    def after_val_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if (runner.iter, batch_idx) == (6, 0):  # a second one would end the process
            os.kill(os.getpid(), signal.SIGTERM)


def validation(toy) -> dict:
    loader = dict(dataset=toy.dataset, batch_size=6, num_workers=0)
    loader.update(sampler=dict(type="DefaultSampler"), collate_fn=dict(type="default_collate"))
    return dict(val_dataloader=loader, val_cfg=dict(type="ValLoop"), val_evaluator=[])


def test_a_signal_in_validation_stops_after_it(toy) -> None:
    """With the trained weights, and not the averaged ones, which validation uses."""
    ema = dict(type="EMAHook", momentum=0.5)
    whole = toy("whole", hooks=[ema])
    whole.train()
    cut = toy("cut", hooks=[ema, SignalInValidation(), GUARD], **validation(toy))
    with pytest.raises(SystemExit):
        cut.train()
    latest = latest_checkpoint(cut.work_dir)
    assert load(latest)["meta"]["iter"] == 7
    rest = toy("cut", hooks=[ema], load_from=latest, resume=True)
    rest.train()
    assert rest.iter == 9 and len(rest.model.seen) == 2
    torch.testing.assert_close(rest.model.factor, whole.model.factor, rtol=0, atol=0)


@pytest.mark.parametrize("value", [NAN, float("inf")])
@pytest.mark.parametrize("step", range(1, 10))
@pytest.mark.parametrize(
    "saving", [{}, dict(by_epoch=False, interval=1), dict(by_epoch=False, interval=2)]
)
def test_no_checkpoint_holds_a_step_that_is_not_finite(toy, saving, step, value) -> None:
    ema = dict(type="EMAHook", momentum=0.5)
    runner = toy(hooks=[BadAt(step, value), ema, GUARD], checkpoint=saving)
    with pytest.raises(
        FloatingPointError, match=rf"step {step}: the loss .*rank 0: loss (nan|inf)"
    ):
        runner.train()
    assert runner.iter == step - 1
    saved = [load(path) for path in Path(runner.work_dir).glob("*.pth")]
    assert all(one["state_dict"]["factor"].isfinite() for one in saved)
    assert all(one["ema_state_dict"]["module.factor"].isfinite() for one in saved)
    assert all(one["meta"]["iter"] < step for one in saved)
    interval = saving.get("interval", 3)
    assert len(saved) == (step - 1) // interval


def test_no_best_checkpoint_either(toy) -> None:
    """With training by iterations, where validation comes in the middle of an epoch."""
    runner = toy(
        hooks=[BadAt(4), GUARD],
        train_cfg=dict(type="IterBasedTrainLoop", max_iters=9, val_interval=2),
        checkpoint=dict(interval=100, by_epoch=False),
        **validation(toy),
    )
    validated = []
    runner.val_loop.run = lambda: (runner.call_hook("before_val"), validated.append(runner.iter))
    with pytest.raises(FloatingPointError, match="step 4"):
        runner.train()
    assert validated == [2]


class FailAt(Hook):
    def before_train_iter(self, runner, batch_idx, data_batch=None) -> None:
        raise RuntimeError("a fault of the model")


def test_handlers_are_restored_after_an_error(toy) -> None:
    """The fixture ``own_signals`` compares."""
    with pytest.raises(RuntimeError, match="a fault of the model"):
        toy(hooks=[FailAt(), GUARD]).train()


def test_a_second_signal_finds_the_handler_from_before() -> None:
    own = []
    before = signal.signal(signal.SIGTERM, lambda *_: own.append("mine"))
    try:
        with stop_signals() as signals:
            os.kill(os.getpid(), signal.SIGTERM)
            assert (signals, own) == ([signal.SIGTERM], [])
            os.kill(os.getpid(), signal.SIGTERM)
            assert own == ["mine"]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_overflows_are_left_to_the_loss_scaler(toy, monkeypatch) -> None:
    """The scaled loss is infinite in the first steps, the loss itself is not."""
    monkeypatch.setattr(amp_optimizer_wrapper, "is_cuda_available", lambda: True)
    monkeypatch.setattr(amp_optimizer_wrapper, "GradScaler", torch.amp.GradScaler)
    scale = dict(device="cpu", init_scale=2.0**127)
    wrapper = dict(
        type="AmpOptimWrapper", loss_scale=scale, optimizer=dict(type="SGD", lr=1e-3, momentum=0.9)
    )
    runner = toy(hooks=[GUARD], optim_wrapper=wrapper)
    runner.train()
    assert runner.iter == 9
    assert 0 < torch.tensor(runner.optim_wrapper.loss_scaler.get_scale()).log2() < 127
    assert runner.model.factor.isfinite() and runner.model.factor > 1


# Two processes.


def train_in_pair(hooks: list, **changes) -> dict:
    """Train; returns what happened, and the number of all-reduces in each step."""
    counts, reduce = [], distributed.all_reduce

    class Count(Hook):
        priority = "HIGHEST"

        def before_train_iter(self, runner, batch_idx, data_batch=None) -> None:
            counts.append(0)

    def counted(*args, **kwargs):
        if counts:
            counts[-1] += 1
        return reduce(*args, **kwargs)

    distributed.all_reduce = counted
    runner = toy_runner(
        Path("run"),
        f"rank{distributed.get_rank()}",
        hooks=[Count(), *hooks],
        launcher="pytorch",
        batch_size=2,
        cfg=dict(model_wrapper_cfg=dict(type="MMDistributedDataParallel", device_ids=None)),
        **changes,
    )
    try:
        runner.train()
        end = "trained"
    except SystemExit as error:
        end = f"exit {error.code}"
    except FloatingPointError as error:
        end = str(error)
    factor = runner.model.module.factor.detach()
    return dict(
        end=end, counts=counts, iter=runner.iter, factor=factor, seen=runner.model.module.seen
    )


def test_one_collective_per_step(in_processes) -> None:
    for run in in_processes(2, train_in_pair, [GUARD]):
        assert run["end"] == "trained"
        assert run["counts"] == [1] * 9


def test_a_signal_to_one_rank_stops_all(in_processes, tmp_path) -> None:
    whole = in_processes(2, train_in_pair, [GUARD])
    cut = in_processes(2, train_in_pair, [OnSecond(SignalAt(4, signal.SIGTERM)), GUARD])
    assert [run["end"] for run in cut] == ["exit 143"] * 2
    saved = tmp_path / "call1" / "run" / INTERRUPTED
    assert load(saved)["meta"]["iter"] == 4
    changes = dict(load_from=str(saved), resume=True)
    rest = in_processes(2, resume_in_pair, changes)
    for one, two, all_ in zip(cut, rest, whole, strict=True):
        assert one["seen"] + two["seen"] == all_["seen"]
        torch.testing.assert_close(two["factor"], all_["factor"], rtol=0, atol=0)


def resume_in_pair(changes: dict) -> dict:
    return train_in_pair([GUARD], **changes)


@pytest.mark.parametrize("step", [4, 6])
def test_a_bad_loss_of_one_rank_stops_all(in_processes, tmp_path, step) -> None:
    first, second = in_processes(2, train_in_pair, [OnSecond(BadAt(step)), GUARD])
    assert first["end"] == "exit 2"
    assert second["end"].startswith(f"step {step}: the loss is not finite (rank 1: loss nan)")
    saved = [*(tmp_path / "call0" / "run").glob("*.pth")]
    assert [path.name for path in saved] == ["epoch_1.pth"]
    assert load(saved[0])["state_dict"]["factor"].isfinite()

"""Stopping on a signal and at a loss that is not finite, on one process and on two."""

import os
import signal
from pathlib import Path

import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.dataset import Compose
from mmengine.hooks import Hook
from mmengine.optim.optimizer import amp_optimizer_wrapper
from torch import distributed

from mmvidformer.engine.checkpointing.resume import INTERRUPTED, latest_checkpoint
from mmvidformer.engine.training_guard import TrainingGuardHook, files_of
from mmvidformer.registry import TRANSFORMS
from tests.engine.toys import BadAt, OnSecond, SignalAt, toy_runner

GUARD = dict(type="mmvidformer.TrainingGuardHook")
SKIP = dict(GUARD, non_finite="skip")
NAN = float("nan")


def load(path: str | Path) -> dict:
    return torch.load(path, weights_only=True)


@pytest.fixture(autouse=True)
def own_signals():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    yield
    assert {number: signal.getsignal(number) for number in before} == before


@pytest.mark.parametrize("name, status", [("SIGTERM", 143), ("SIGUSR1", 138)])
@pytest.mark.parametrize("stop, end", [(1, 2), (2, 3), (3, 3), (5, 6)])
def test_a_signal_saves_the_state_within_two_steps(toy, stop, end, name, status) -> None:
    whole = toy("whole")
    whole.train()
    cut = toy("cut", hooks=[SignalAt(stop, getattr(signal, name)), GUARD])
    with pytest.raises(SystemExit) as exit_:
        cut.train()
    assert exit_.value.code == status
    latest = latest_checkpoint(cut.work_dir)
    assert Path(latest).name == INTERRUPTED
    assert load(latest)["meta"]["iter"] == end
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
    cut = toy("cut", hooks=[SignalAt(2, signal.SIGTERM), GUARD], **schedule)
    with pytest.raises(SystemExit):
        cut.train()
    rest = toy("cut", load_from=latest_checkpoint(cut.work_dir), resume=True, **schedule)
    rest.train()
    assert rest.optim_wrapper.get_lr() == whole.optim_wrapper.get_lr() == {"lr": [2.5e-4]}
    torch.testing.assert_close(rest.model.factor, whole.model.factor, rtol=0, atol=0)


class SignalInValidation(Hook):
    def after_val_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if runner.iter == 6:
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
    assert load(latest)["meta"]["iter"] == 8
    rest = toy("cut", hooks=[ema], load_from=latest, resume=True)
    rest.train()
    assert rest.iter == 9 and len(rest.model.seen) == 1
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
    assert runner.iter <= step  # one more step at most was computed
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


def test_skip_is_training_without_the_step(toy) -> None:
    runner = toy(hooks=[BadAt(2), BadAt(6), BadAt(7), SKIP])
    runner.train()
    assert runner.iter == 9
    assert runner.message_hub.get_scalar("train/skipped_steps").current() == 3
    # By hand: the same steps without the bad batches.
    factor = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([factor], lr=1e-3, momentum=0.9)
    warm_up = torch.linspace(0.1, 1, 9)
    for step, batch in enumerate(runner.model.seen):
        x = torch.tensor(batch)
        if not x.isnan().any():
            optimizer.param_groups[0]["lr"] = 1e-3 * float(warm_up[step])
            optimizer.zero_grad()
            (factor * x - 2 * x).square().mean().backward()
            optimizer.step()
    torch.testing.assert_close(runner.model.factor, factor)


@pytest.mark.parametrize(("limit", "bad"), [(3, (2, 4, 5, 6, 7)), (10, range(1, 12))])
def test_too_many_skips_in_a_row_stop(toy, limit, bad) -> None:
    guard = SKIP if limit == 10 else dict(SKIP, max_skips=limit)  # 10 is the default
    runner = toy(hooks=[*map(BadAt, bad), guard])
    runner.train_loop._max_epochs = 4
    with pytest.raises(FloatingPointError, match=f"step {bad[-1]}: .*, as in the {limit} steps"):
        runner.train()


def test_a_skipped_step_of_accumulation_is_left_out_of_the_update(toy) -> None:
    """One update for three steps; the second is not finite, and the update uses the others."""
    wrapper = dict(optimizer=dict(type="SGD", lr=1e-3), accumulative_counts=3)
    runner = toy(hooks=[BadAt(2), SKIP], optim_wrapper=wrapper, param_scheduler=None)
    runner.train_loop._max_epochs = 1
    runner.train()
    used = [torch.tensor(batch) for batch in runner.model.seen[::2]]
    gradient = sum(2 * (-1 * x * x).mean() / 3 for x in used)
    torch.testing.assert_close(runner.model.factor, (1 - 1e-3 * gradient).reshape(1))


@pytest.mark.parametrize("guard", [GUARD, SKIP])
def test_overflows_are_left_to_the_loss_scaler(toy, monkeypatch, guard) -> None:
    """The scaled loss is infinite in the first steps, the loss itself is not."""
    monkeypatch.setattr(amp_optimizer_wrapper, "is_cuda_available", lambda: True)
    monkeypatch.setattr(amp_optimizer_wrapper, "GradScaler", torch.amp.GradScaler)
    scale = dict(device="cpu", init_scale=2.0**127)
    wrapper = dict(
        type="AmpOptimWrapper", loss_scale=scale, optimizer=dict(type="SGD", lr=1e-3, momentum=0.9)
    )
    runner = toy(hooks=[guard], optim_wrapper=wrapper)
    runner.train()
    assert runner.iter == 9
    assert 0 < torch.tensor(runner.optim_wrapper.loss_scaler.get_scale()).log2() < 127
    assert runner.model.factor.isfinite() and runner.model.factor > 1


def test_files_are_named() -> None:
    pack = TRANSFORMS.build(dict(type="PackActionInputs"))

    class Runner:
        class train_dataloader:
            class dataset:
                class dataset:  # wrapped, as by RepeatDataset
                    pipeline = Compose([pack])

    hook = TrainingGuardHook()
    hook.before_train(Runner)
    hook.after_train(Runner)
    results = dict(imgs=torch.zeros(1), filename="a/b.mp4", label=0)
    sample = pack(results)["data_samples"]
    assert files_of({"data_samples": [sample, ActionDataSample()]}) == "a/b.mp4, unknown"
    assert files_of({"data_samples": None}) == "unknown"


def test_a_wrong_policy_is_named() -> None:
    with pytest.raises(ValueError, match="non_finite must be .*ignore"):
        TrainingGuardHook(non_finite="ignore")


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


@pytest.mark.parametrize("guard", [GUARD, SKIP])
def test_one_collective_per_step(in_processes, guard) -> None:
    for run in in_processes(2, train_in_pair, [guard]):
        assert run["end"] == "trained"
        assert run["counts"] == [1] * 9


def test_a_signal_to_one_rank_stops_all_within_two_steps(in_processes, tmp_path) -> None:
    whole = in_processes(2, train_in_pair, [GUARD])
    cut = in_processes(2, train_in_pair, [OnSecond(SignalAt(4, signal.SIGTERM)), GUARD])
    assert [run["end"] for run in cut] == ["exit 143"] * 2
    saved = tmp_path / "call1" / "run" / INTERRUPTED
    assert load(saved)["meta"]["iter"] == 5
    changes = dict(load_from=str(saved), resume=True)
    rest = in_processes(2, resume_in_pair, changes)
    for one, two, all_ in zip(cut, rest, whole, strict=True):
        assert one["seen"] + two["seen"] == all_["seen"]
        torch.testing.assert_close(two["factor"], all_["factor"], rtol=0, atol=0)


def resume_in_pair(changes: dict) -> dict:
    return train_in_pair([GUARD], **changes)


@pytest.mark.parametrize("step", [4, 6])
def test_a_bad_loss_of_one_rank_stops_all(in_processes, tmp_path, step) -> None:
    for run in in_processes(2, train_in_pair, [OnSecond(BadAt(step)), GUARD]):
        assert run["end"].startswith(
            f"step {step}: the loss is not finite (rank 1: loss nan, files unknown)"
        )
    saved = [*(tmp_path / "call0" / "run").glob("*.pth")]
    assert [path.name for path in saved] == ["epoch_1.pth"]
    assert load(saved[0])["state_dict"]["factor"].isfinite()


def test_a_bad_loss_of_one_rank_is_skipped_by_all(in_processes) -> None:
    first, second = in_processes(2, train_in_pair, [OnSecond(BadAt(4)), SKIP])
    assert first["end"] == second["end"] == "trained"
    assert first["iter"] == 9 and first["factor"].isfinite()
    torch.testing.assert_close(first["factor"], second["factor"], rtol=0, atol=0)

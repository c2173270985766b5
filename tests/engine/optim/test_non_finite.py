"""Losses that are not numbers."""

import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.dataset import Compose

from mmvidformer.engine.optim.non_finite import NonFiniteLossHook, files_of
from mmvidformer.registry import TRANSFORMS

STOP = dict(type="mmvidformer.NonFiniteLossHook")


def with_bad(toy, value: float, hook: dict, **changes):
    """A run in which the number 7 is replaced."""
    runner = toy(hooks=[hook], **changes)
    forward = runner.model.forward
    runner.model.forward = lambda x, mode: forward(torch.where(x == 7, value, x), mode)
    return runner


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_stop_leaves_clean_weights_and_names_the_step(toy, value: float) -> None:
    runner = with_bad(toy, value, STOP)
    with pytest.raises(
        FloatingPointError, match=r"iteration \d: the loss is not finite.*process 0"
    ):
        runner.train()
    assert torch.isfinite(runner.model.factor).all()


def test_skip_is_training_without_the_step(toy) -> None:
    runner = with_bad(toy, float("nan"), dict(STOP, policy="skip"))
    runner.train()
    assert torch.isfinite(runner.model.factor).all()
    assert runner.iter == 9
    assert runner.message_hub.get_scalar("train/skipped_steps").current() == 3
    # By hand: the same steps without the batches of the 7.
    by_hand = toy("by_hand", hooks=[])
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
    assert by_hand.model.factor.item() == 1
    torch.testing.assert_close(runner.model.factor, factor)


def test_too_many_in_a_row_stop(toy) -> None:
    runner = toy(hooks=[dict(STOP, policy="skip", max_skips=3)])
    forward = runner.model.forward
    runner.model.forward = lambda x, mode: forward(x * float("nan"), mode)
    with pytest.raises(FloatingPointError, match="as in the 3 steps before"):
        runner.train()
    assert runner.iter == 3


def test_accumulated_gradients_wait_for_their_turn(toy) -> None:
    """One update for three steps; the second is not finite, and the update uses the others."""
    wrapper = dict(optimizer=dict(type="SGD", lr=1e-3), accumulative_counts=3)
    runner = toy(hooks=[dict(STOP, policy="skip")], optim_wrapper=wrapper, param_scheduler=None)
    forward, calls = runner.model.forward, []

    def second_is_bad(x: torch.Tensor, mode: str) -> dict:
        calls.append(x)
        return forward(x * float("nan") if len(calls) == 2 else x, mode)

    runner.model.forward = second_is_bad
    runner.train_loop._max_epochs = 1
    runner.train()
    gradient = sum(2 * (-1 * x * x).mean() / 3 for x in (calls[0], calls[2]))
    torch.testing.assert_close(runner.model.factor, (1 - 1e-3 * gradient).float().reshape(1))


def test_files_are_named() -> None:
    pack = TRANSFORMS.build(dict(type="PackActionInputs"))
    hook = NonFiniteLossHook()

    class Loop:
        class dataloader:
            class dataset:
                class dataset:  # wrapped, as by RepeatDataset
                    pipeline = Compose([pack])

    class Runner:
        train_loop = Loop
        optim_wrapper = None

    hook.before_train(Runner)
    results = dict(imgs=torch.zeros(1), filename="a/b.mp4", label=0)
    sample = pack(results)["data_samples"]
    assert files_of({"data_samples": [sample, ActionDataSample()]}) == "a/b.mp4, unknown"
    assert files_of({"data_samples": None}) == "of unknown files"


@pytest.mark.parametrize("wrong", [dict(policy="ignore"), dict(max_skips=0)])
def test_wrong_arguments_are_named(wrong: dict) -> None:
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        NonFiniteLossHook(**wrong)

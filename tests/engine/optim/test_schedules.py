"""The learning rate of ``WarmupCosineLR``; the official functions' are in test_official_rates."""

import math

import pytest
import torch
from mmaction.registry import PARAM_SCHEDULERS
from mmengine.optim import CosineAnnealingLR
from torch.optim import SGD

LENGTH = 7
SLOWFAST = dict(warmup=2, start_factor=0.1, cosine_begin=0, end=5)
SCENIC = dict(warmup=2.5, cosine_begin=2.5, end=5)


def build(optimizer: SGD, **arguments: float) -> CosineAnnealingLR:
    cfg = dict(type="mmvidformer.WarmupCosineLR", convert_to_iter_based=True, **arguments)
    return PARAM_SCHEDULERS.build(cfg, default_args=dict(optimizer=optimizer, epoch_length=LENGTH))


def two_groups() -> SGD:
    return SGD([{"params": [torch.zeros(1)]}, {"params": [torch.zeros(1)], "lr": 0.2}], lr=1.0)


def run(optimizer: SGD, scheduler: CosineAnnealingLR, steps: int) -> list[tuple[float, float]]:
    rates = []
    for _ in range(steps):
        rates.append(tuple(group["lr"] for group in optimizer.param_groups))
        optimizer.step()
        scheduler.step()
    return rates


def test_line_meets_the_cosine() -> None:
    optimizer = two_groups()
    rates = [first for first, _ in run(optimizer, build(optimizer, **SLOWFAST), 5 * LENGTH)]
    cosine = [(1 + math.cos(math.pi * step / 35)) / 2 for step in range(35)]
    line = [0.1 + (cosine[14] - 0.1) * step / 14 for step in range(14)]
    assert rates == pytest.approx([*line, *cosine[14:]])


def test_cosine_begins_after_the_line() -> None:
    """Steps of epochs are rounded down: the warm-up of 2.5 epochs of 7 steps has 17."""
    optimizer = two_groups()
    rates = [first for first, _ in run(optimizer, build(optimizer, **SCENIC), 5 * LENGTH)]
    cosine = [(1 + math.cos(math.pi * step / 18)) / 2 for step in range(18)]
    assert rates == pytest.approx([*(step / 17 for step in range(17)), *cosine])


def test_groups_keep_their_ratio() -> None:
    optimizer = two_groups()
    rates = run(optimizer, build(optimizer, **SLOWFAST), 5 * LENGTH)
    assert [second for _, second in rates] == pytest.approx([0.2 * first for first, _ in rates])


@pytest.mark.parametrize("steps", [1, 14, 20])
def test_resumes(steps: int) -> None:
    whole, part, rest = two_groups(), two_groups(), two_groups()
    expected = run(whole, build(whole, **SLOWFAST), 5 * LENGTH)
    first = build(part, **SLOWFAST)
    assert run(part, first, steps) == expected[:steps]
    second = build(rest, **SLOWFAST)
    rest.load_state_dict(part.state_dict())
    second.load_state_dict(first.state_dict())
    assert run(rest, second, 5 * LENGTH - steps) == expected[steps:]


def test_without_warmup() -> None:
    optimizer = two_groups()
    scheduler = build(optimizer, warmup=0, cosine_begin=0, end=2)
    rates = [first for first, _ in run(optimizer, scheduler, 2 * LENGTH)]
    assert rates == pytest.approx([(1 + math.cos(math.pi * step / 14)) / 2 for step in range(14)])

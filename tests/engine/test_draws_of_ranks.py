"""Random draws of several processes."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed

from tests.engine.toys import Line, toy_runner


class Drawing(Line):
    """Drops its inputs, and notes what each step draws."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: list[list[float]] = []

    def forward(self, x: torch.Tensor, mode: str) -> dict | list:
        mask = torch.rand(len(x)) < 0.5
        self.draws.append([*mask.float().tolist(), torch.rand(()).item(), random.random()])
        self.draws[-1].append(np.random.rand())
        return super().forward(x * mask, mode)


def draw(folder: Path, name: str, resume: str, randomness: dict) -> dict:
    """Train in each process of a group."""
    runner = toy_runner(
        folder / name,
        f"{name}{distributed.get_rank()}",
        model=Drawing(),
        batch_size=2,
        checkpoint=dict(by_epoch=False, interval=1),
        launcher="pytorch",
        cfg=dict(model_wrapper_cfg=dict(type="MMDistributedDataParallel", device_ids=None)),
        load_from=resume or None,
        resume=bool(resume),
        randomness=randomness,
    )
    runner.train()
    model = runner.model.module
    return dict(draws=model.draws, factor=model.factor.detach())


@pytest.mark.parametrize("more", [{}, dict(diff_rank_seed=True)])
def test_ranks_draw_differently_also_after_they_resume(in_processes, tmp_path, more) -> None:
    whole = in_processes(2, draw, tmp_path, "whole", "", dict(seed=0, **more))
    torch.testing.assert_close(whole[0]["factor"], whole[1]["factor"], rtol=0, atol=0)
    drawn = [result["draws"] for result in whole]
    masks = [[step[:2] for step in steps] for steps in drawn]
    assert masks[0] != masks[1]
    for numbers in zip(*(step[2:] for steps in drawn for step in steps), strict=True):
        assert len({*numbers}) == 18  # of each generator, in 9 steps of 2 ranks
    start = str(tmp_path / "whole" / "iter_4.pth")
    rest = in_processes(2, draw, tmp_path, "rest", start, dict(seed=7, **more))
    for rank in range(2):
        assert rest[rank]["draws"] == drawn[rank][4:]
        torch.testing.assert_close(rest[rank]["factor"], whole[rank]["factor"], rtol=0, atol=0)

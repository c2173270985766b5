"""Fixtures of the tests of the engine: a run that is over in a moment, and groups of processes."""

import itertools
import multiprocessing
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch import Tensor, distributed
from torch.utils.data import Dataset


class Numbers(Dataset):
    """The numbers 0 to 11; ``metainfo`` is what runners look for."""

    metainfo: dict = {}

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict:
        return {"x": float(index)}


class Line(BaseModel):
    """Learns a factor; notes the numbers that it sees in training."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(1))
        self.seen: list[list[float]] = []

    def forward(self, x: Tensor, mode: str) -> dict | list:
        if mode == "loss":
            self.seen.append(x.tolist())
            return {"loss": (self.factor * x - 2 * x).square().mean()}
        return [float(self.factor)] * len(x)


@pytest.fixture
def toy(tmp_path: Path) -> Callable[..., Runner]:
    """Build a runner of 3 epochs of 3 steps of 4 numbers; it saves after each epoch."""
    count = iter(range(100))

    def build(
        folder: str = "run",
        hooks: Sequence = (),
        checkpoint: dict | None = None,
        batch_size: int = 4,
        **changes,
    ) -> Runner:
        settings = dict(
            model=Line(),
            work_dir=str(tmp_path / folder),
            experiment_name=f"{tmp_path.name}_{folder}_{next(count)}",
            train_dataloader=dict(
                dataset=Numbers(),
                batch_size=batch_size,
                num_workers=0,
                collate_fn=dict(type="default_collate"),
                sampler=dict(type="mmvidformer.ResumableSampler", shuffle=True),
            ),
            train_cfg=dict(type="mmvidformer.ResumableTrainLoop", max_epochs=3),
            optim_wrapper=dict(optimizer=dict(type="SGD", lr=1e-3, momentum=0.9)),
            param_scheduler=[dict(type="LinearLR", by_epoch=False, start_factor=0.1, end=9)],
            default_hooks=dict(
                checkpoint=dict(
                    {"type": "mmvidformer.AtomicCheckpointHook", "interval": 1},
                    **(checkpoint or {}),
                )
            ),
            custom_hooks=list(hooks),
            default_scope="mmaction",
            randomness=dict(seed=0),
            log_level="WARNING",
        )
        return Runner(**{**settings, **changes})

    build.dataset = Numbers()
    return build


@pytest.fixture
def in_processes(tmp_path: Path) -> Callable:
    """Call a function in a gloo group of n processes; gives what each returns, by rank.

    They are forked, so that they need not import torch anew.
    """
    calls = itertools.count()
    return lambda n, function, *args: _run(n, function, tmp_path / f"call{next(calls)}", args)


def _run(count: int, function: Callable, folder: Path, args: tuple) -> list:
    folder.mkdir()
    context = multiprocessing.get_context("fork")
    started = [
        context.Process(target=_one, args=(rank, count, function, folder, args))
        for rank in range(count)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
    codes = [process.exitcode for process in started]
    for process in started:
        process.kill()
    assert codes == [0] * count, f"the processes ended with {codes}"
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(count)]


def _one(rank: int, count: int, function: Callable, folder: Path, args: tuple) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count))
    os.chdir(folder)  # for the logs
    store = distributed.FileStore(str(folder / "store"), count)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=count)
    result = function(*args)
    torch.save(result, folder / f"{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()

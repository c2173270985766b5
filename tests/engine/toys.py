"""A run that is over in a moment, and groups of processes."""

import math
import multiprocessing
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from mmengine.evaluator import BaseMetric
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch import Tensor, distributed
from torch.utils.data import Dataset

# The processes of a group import this file, and their MMAction2 must be repaired as well.
import mmvidformer.registry  # noqa: F401


class Numbers(Dataset):
    """The numbers 0 to 11; ``metainfo`` is what runners look for."""

    metainfo: dict = {}

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict:
        return {"x": float(index)}


class SignalAt(Hook):
    """Sends its own process a signal in a step, as a cluster does."""

    def __init__(self, step: int, number: int) -> None:
        self.step, self.number = step, number

    def before_train_iter(self, runner, batch_idx, data_batch=None) -> None:
        if runner.iter + 1 == self.step:
            os.kill(os.getpid(), self.number)


class BadAt(Hook):
    """Replaces the batch of a step."""

    def __init__(self, step: int, value: float = math.nan) -> None:
        self.step, self.value = step, value

    def before_train_iter(self, runner, batch_idx, data_batch=None) -> None:
        if runner.iter + 1 == self.step:
            data_batch["x"].fill_(self.value)


class Stop(Exception):
    """Ends a run."""


class StopAt(Hook):
    """Ends the run after a step, as if it were killed."""

    priority = "LOWEST"

    def __init__(self, step: int) -> None:
        self.step = step

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if runner.iter + 1 == self.step:
            raise Stop


class Rising(BaseMetric):
    """Better each time."""

    value = 0

    def process(self, data_batch, data_samples) -> None:
        self.results.append(0)

    def compute_metrics(self, results: list) -> dict:
        Rising.value += 1
        return {"acc": Rising.value}


class OnSecond(Hook):
    """Runs a hook on the second rank only."""

    def __init__(self, hook: Hook) -> None:
        self.hook = hook

    def before_train_iter(self, runner, batch_idx, data_batch=None) -> None:
        if runner.rank == 1:
            self.hook.before_train_iter(runner, batch_idx, data_batch)


class Line(BaseModel):
    """Learns a factor, and records the numbers that it sees in training."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(1))
        self.seen: list[list[float]] = []

    def forward(self, x: Tensor, mode: str) -> dict | list:
        if mode == "loss":
            self.seen.append(x.tolist())
            return {"loss": (self.factor * x - 2 * x).square().mean()}
        return [float(self.factor)] * len(x)


def toy_runner(
    work_dir: Path,
    name: str,
    hooks: Sequence = (),
    checkpoint: dict | None = None,
    batch_size: int = 4,
    **changes,
) -> Runner:
    """Build a runner of 3 epochs of 3 steps of 4 numbers, which saves after each epoch."""
    settings = dict(
        model=Line(),
        work_dir=str(work_dir),
        experiment_name=name,
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


def validated(toy: Callable, checkpoint: dict | None = None, **changes) -> Runner:
    """Build a toy runner that is better after each epoch, and keeps two checkpoints."""
    loader = dict(dataset=toy.dataset, batch_size=6, num_workers=0)
    loader.update(sampler=dict(type="DefaultSampler"), collate_fn=dict(type="default_collate"))
    return toy(
        val_dataloader=loader,
        val_cfg=dict(type="ValLoop"),
        val_evaluator=[Rising()],
        checkpoint=dict(save_best="acc", rule="greater", max_keep_ckpts=2, **(checkpoint or {})),
        **changes,
    )


def run_group(count: int, function: Callable, folder: Path, args: tuple) -> list:
    """Call a function in a gloo group of processes, and return their results by rank.

    Processes must not be forked from this one: autograd may have started threads in it. They are
    forked from a server that has only imported modules.
    """
    folder.mkdir()
    context = multiprocessing.get_context("forkserver")
    processes = [
        context.Process(target=_member, args=(rank, count, function, folder, args))
        for rank in range(count)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(600)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    assert codes == [0] * count, f"the processes ended with {codes}"
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(count)]


def _member(rank: int, count: int, function: Callable, folder: Path, args: tuple) -> None:
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count))
    os.chdir(folder)  # for the logs
    store = distributed.FileStore(str(folder / "store"), count)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=count)
    result = function(*args)
    torch.save(result, folder / f"{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()

"""Cost of a sample in the dataloader, part by part, against the speed of the model."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import ceil
from statistics import median
from typing import NamedTuple

import cv2
import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.optim import build_optim_wrapper
from mmengine.runner import Runner
from torch import nn
from torch.utils.data import DataLoader
from tqdm import tqdm

from mmvidformer.apis.complexity import count
from mmvidformer.config.building import building
from mmvidformer.data.bad_videos import with_inner
from mmvidformer.errors import UserError
from mmvidformer.registry import MODELS

# A dataloader that is only as fast as the model still makes it wait at times.
RESERVE = 1.2

# Fraction of a GPU's nominal speed that training reaches.
UTILIZATION = 0.4


class Part(NamedTuple):
    """Mean cost of one part of data loading for one sample.

    Attributes:
        name: Name of the part.
        process: ``'worker'``, or ``'main'`` for what runs between two steps of the model.
        wall: Milliseconds until it is finished, waiting for files or the device included.
        cpu: Milliseconds of CPU time.
    """

    name: str
    process: str
    wall: float
    cpu: float


class _Timed:
    """A dataset with a stopwatch for each of its transforms."""

    def __init__(self, cfg: Config, split: str) -> None:
        self.loader = _build_loader(cfg, split)
        self.times: dict[str, list[tuple[float, float]]] = {}
        dataset = self.loader.dataset
        pipelines = [inner.pipeline for inner in with_inner(dataset) if hasattr(inner, "pipeline")]
        if not pipelines:
            raise UserError(f"{type(dataset).__name__} has no pipeline of transforms to measure")
        for pipeline in pipelines:
            pipeline.transforms = [
                partial(self._run, f"{number} {type(transform).__name__}", transform)
                for number, transform in enumerate(pipeline.transforms, 1)
            ]

    def _run(self, name: str, transform: Callable, results: dict) -> dict:
        spent, results = _clock(lambda: transform(results))
        self.times.setdefault(name, []).append(spent)
        return results

    def load(self, index: int) -> dict:
        """Load a sample; what its transforms do not take is the dataset's time."""
        before = _sum(self.times.values())
        spent, sample = _clock(lambda: self.loader.dataset[index])
        after = _sum(self.times.values())
        remaining = (s - (b - a) for s, a, b in zip(spent, before, after, strict=True))
        self.times.setdefault("annotation and the rest", []).append(tuple(remaining))
        return sample


def measure_loading(*cfgs: Config, split: str = "train", samples: int = 32) -> list[list[Part]]:
    """Measure the parts of data loading: means over samples.

    The parts are each transform, the rest of the dataset, collating and the data preprocessor.
    Workers' parts run in this process with one thread, as in a worker. The samples are spread
    evenly over the dataset of the split, and several configs take turns. The first sample is a
    warmup.

    Returns:
        The parts for each config.

    Raises:
        UserError: If there is no such dataloader, or its dataset is empty or has no pipeline.
    """
    timed = [_Timed(cfg, split) for cfg in cfgs]
    size = len(timed[0].loader.dataset)
    loaded: list[list[dict]] = [[] for _ in cfgs]
    with _one_thread():
        for dataset in timed:
            dataset.load(0)
            dataset.times.clear()
        for i in tqdm(range(samples), desc=f"{split} samples", disable=None):
            for dataset, kept in zip(timed, loaded, strict=True):
                kept.append(dataset.load(i * size // samples % size))
                del kept[dataset.loader.batch_size :]
    return [
        _finish(cfg, dataset, kept, split == "train")
        for cfg, dataset, kept in zip(cfgs, timed, loaded, strict=True)
    ]


def _finish(cfg: Config, timed: _Timed, loaded: list[dict], training: bool) -> list[Part]:
    """Measure what happens to a batch, and list all parts."""
    settings = cfg.model.get("data_preprocessor") or dict(type="BaseDataPreprocessor")
    with building(cfg):
        preprocessor = MODELS.build(settings).to(get_device())
    collate = timed.loader.collate_fn
    with _one_thread():
        collating = [_clock(lambda: collate(loaded))[0] for _ in range(5)]
    batches = [collate(loaded) for _ in range(6)]
    preparing = [_clock(lambda b=batch: preprocessor(b, training))[0] for batch in batches][1:]
    parts = [_part(name, "worker", times) for name, times in timed.times.items()]
    parts.append(_part("collate", "worker", collating, len(loaded)))
    name = "to the device, augment, normalize" if training else "to the device, normalize"
    return [*parts, _part(name, "main", preparing, len(loaded))]


def _part(name: str, process: str, times: Sequence[tuple[float, float]], samples: int = 1) -> Part:
    wall, cpu = (1000 * total / len(times) / samples for total in _sum([times]))
    return Part(name, process, wall, cpu)


def _sum(times: Sequence[Sequence[tuple[float, float]]]) -> tuple[float, float]:
    wall = cpu = 0.0
    for of_part in times:
        for part_wall, part_cpu in of_part:
            wall += part_wall
            cpu += part_cpu
    return wall, cpu


def model_rate(cfg: Config, split: str = "train", repeats: int = 5) -> float:
    """Measure the samples per second of a training or test step on this device.

    A step includes the data preprocessor, the forward pass and, in training, the backward pass and
    the optimizer. All steps use the same batch. The first step is a warmup. Weights are random.
    """
    training = split == "train"
    loader = _build_loader(cfg, split)
    with building(cfg):
        model: nn.Module = MODELS.build(cfg.model).to(get_device()).train(training)
        step: Callable = model.test_step
        if training:
            wrapper = build_optim_wrapper(model, {**cfg.optim_wrapper, "accumulative_counts": 1})
            step = partial(model.train_step, optim_wrapper=wrapper)
    size = min(cfg[f"{split}_dataloader"].batch_size, len(loader.dataset))
    batch = loader.collate_fn([loader.dataset[i] for i in range(size)])
    with torch.set_grad_enabled(training):
        times = [_clock(lambda: step(dict(batch)))[0][0] for _ in range(repeats + 1)]
    return size / median(times[1:])


def nominal_rate(cfg: Config, tflops: float) -> float:
    """Return the clips per second that a GPU trains, from the MACs of the model.

    A training step takes three times the operations of a forward pass.

    Args:
        cfg: Config of a recognizer.
        tflops: Nominal speed of the GPU in TFLOP/s, of which ``UTILIZATION`` is reached.

    Raises:
        UserError: If the model is recurrent.
    """
    return tflops * 1e12 * UTILIZATION / (3 * 2 * count(cfg).macs)


def worker_cost(parts: Sequence[Part]) -> tuple[float, float]:
    """Return the milliseconds of a worker per sample: wall time and CPU time."""
    return _sum([[(part.wall, part.cpu) for part in parts if part.process == "worker"]])


def loading_rate(parts: Sequence[Part], workers: int, cores: int) -> float:
    """Return the samples per second of a dataloader, limited only by its workers and the cores.

    No workers count as one, since the main process loads the data.
    """
    wall, cpu = worker_cost(parts)
    return 1000 * min(max(workers, 1) / wall, cores / cpu)


def suggest_workers(parts: Sequence[Part], model: float, cores: int) -> int | None:
    """Return the fewest workers that keep a model busy, or None if there are too few cores.

    ``model`` is the number of samples per second of the model.
    """
    wall, cpu = worker_cost(parts)
    enough = RESERVE * model * cpu <= 1000 * cores
    return max(1, ceil(RESERVE * model * wall / 1000)) if enough else None


def _build_loader(cfg: Config, split: str) -> DataLoader:
    settings = cfg.get(f"{split}_dataloader")
    with building(cfg):
        loader = Runner.build_dataloader(settings) if settings else None
    if not (loader and len(loader.dataset)):
        raise UserError(f"the config has no {split}_dataloader, or its dataset is empty")
    return loader


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


def _clock(call: Callable) -> tuple[tuple[float, float], object]:
    """Return wall and CPU seconds of a call until the device has finished, and its result."""
    start = time.perf_counter(), time.process_time()
    result = call()
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return (time.perf_counter() - start[0], time.process_time() - start[1]), result

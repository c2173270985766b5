"""Where the time of a data loader goes, and how many workers keep up with a model."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import ceil
from statistics import median

import cv2
import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.device import get_device
from mmengine.optim import build_optim_wrapper
from mmengine.registry import FUNCTIONS
from torch import nn
from torch.utils.data import Dataset
from tqdm import tqdm

from mmvidformer.registry import DATASETS, MODELS

# A loader that is just as fast as the model still makes it wait now and then.
RESERVE = 1.2


@dataclass(frozen=True)
class Part:
    """What one part of the loading costs.

    Args:
        name: Place and name of the transform, or what else is measured.
        place: ``'worker'`` or ``'main'``: the process that does it.
        milliseconds: Median of a sample.
    """

    name: str
    place: str
    milliseconds: float


@dataclass(frozen=True)
class Verdict:
    """Loader against model.

    Args:
        workers: Worker processes.
        loader: Samples a second that they give.
        model: Samples a second that the model takes.
        suggested: Fewest workers that keep the model busy; None where the cores do not suffice.
    """

    workers: int
    loader: float
    model: float
    suggested: int | None

    @property
    def limit(self) -> str:
        """Which of both the other waits for."""
        return "loader" if self.loader < self.model else "model"


def measure_loading(cfg: Config, split: str = "train", samples: int = 32) -> list[Part]:
    """Time each transform of a config's pipeline, the rest of the dataset, collating, preparing.

    Runs in this process with one thread, as a worker does. The first sample is for warming up.

    Args:
        cfg: A whole config.
        split: ``'train'``, ``'val'`` or ``'test'``.
        samples: How many to load, spread evenly over the dataset (fewer where it is smaller).

    Raises:
        ValueError: If the config has no such loader, the dataset is empty or has no pipeline.
    """
    loader = cfg.get(f"{split}_dataloader")
    if not loader:
        raise ValueError(f"the config has no {split}_dataloader")
    dataset = DATASETS.build(loader.dataset)
    if not len(dataset):
        raise ValueError(f"the dataset of {split}_dataloader is empty")
    count = min(samples, len(dataset))
    numbers = [i * len(dataset) // count for i in range(count)]
    times: dict[str, list[float]] = {}
    rest, loaded = [], []
    with _one_thread(), _timed(_pipeline(dataset), times):
        dataset[numbers[0]]
        times.clear()
        for number in tqdm(numbers, desc=f"{split} samples", disable=None):
            before = sum(map(sum, times.values()))
            seconds, sample = _clock(lambda n=number: dataset[n])
            rest.append(seconds - (sum(map(sum, times.values())) - before))
            if len(loaded) < loader.batch_size:
                loaded.append(sample)
        collate = _collate(loader)
        collating = [_clock(lambda: collate(loaded)) for _ in range(5)]
    parts = [Part("annotation and the rest", "worker", 1000 * median(rest))]
    parts += [Part(name, "worker", 1000 * median(t)) for name, t in times.items()]
    share = 1000 / len(loaded)
    parts.append(Part("collate", "worker", share * median(seconds for seconds, _ in collating)))
    prepare = _preprocessor(cfg)
    batch = collating[0][1]
    preparing = [_on_device(lambda: prepare(dict(batch), split == "train")) for _ in range(5)]
    parts.append(Part("to the device, normalise", "main", share * median(preparing)))
    return parts


def model_rate(cfg: Config, split: str = "train", repeats: int = 5) -> float:
    """Measure the clips a second that a training step takes, or a test step, on this device.

    One batch of the config's loader, loaded once, goes through the whole step: preparing, forward
    pass and, in training, backward pass and optimiser. The first step is for warming up. Weights
    are random.
    """
    loader = cfg[f"{split}_dataloader"]
    dataset = DATASETS.build(loader.dataset)
    collate = _collate(loader)
    size = min(loader.batch_size, len(dataset))
    batch = collate([dataset[i] for i in range(size)])
    model = MODELS.build(cfg.model).to(get_device())
    step: Callable[[], object]
    if split == "train":
        wrapper = build_optim_wrapper(model, {**cfg.optim_wrapper, "accumulative_counts": 1})
        step = lambda: model.train_step(dict(batch), wrapper)  # noqa: E731
    else:
        model.eval()
        step = torch.no_grad()(lambda: model.test_step(dict(batch)))
    times = [_on_device(step) for _ in range(repeats + 1)]
    return size / median(times[1:])


def judge(parts: Sequence[Part], model: float, workers: int, cores: int | None = None) -> Verdict:
    """Compare the loader with a model.

    Workers are taken to share nothing but the cores: more of them than cores bring no more.

    Args:
        parts: From ``measure_loading``.
        model: Samples a second that the model takes.
        workers: Worker processes; 0 loads in the main process, as fast as one worker at most.
        cores: Cores of this machine; default: those that this process may use.
    """
    cores = cores or (len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count())
    seconds = sum(part.milliseconds for part in parts if part.place == "worker") / 1000
    needed = max(1, ceil(RESERVE * model * seconds))
    return Verdict(
        workers=workers,
        loader=min(max(workers, 1), cores) / seconds,
        model=model,
        suggested=needed if needed <= cores else None,
    )


def _collate(loader: Mapping) -> Callable:
    settings = {"type": "pseudo_collate", **(loader.get("collate_fn") or {})}
    kind = settings.pop("type")
    return partial(FUNCTIONS.get(kind) if isinstance(kind, str) else kind, **settings)


def _pipeline(dataset: Dataset) -> Compose:
    inner = dataset
    while not isinstance(getattr(inner, "pipeline", None), Compose):
        if getattr(inner, "dataset", None) is None and not getattr(inner, "datasets", None):
            raise ValueError(f"{type(inner).__name__} has no pipeline of transforms to measure")
        inner = getattr(inner, "dataset", None) or inner.datasets[0]
    return inner.pipeline


@contextmanager
def _timed(pipeline: Compose, times: dict[str, list[float]]) -> Iterator[None]:
    """Note the seconds of each call of each transform."""

    def timed(name: str, transform: Callable) -> Callable:
        def call(results: dict) -> dict:
            seconds, results = _clock(lambda: transform(results))
            times.setdefault(name, []).append(seconds)
            return results

        return call

    transforms = pipeline.transforms
    pipeline.transforms = [
        timed(f"{place} {type(transform).__name__}", transform)
        for place, transform in enumerate(transforms, 1)
    ]
    try:
        yield
    finally:
        pipeline.transforms = transforms


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


def _preprocessor(cfg: Config) -> nn.Module:
    settings = cfg.model.get("data_preprocessor") or dict(type="BaseDataPreprocessor")
    return MODELS.build(settings).to(get_device())


def _clock(call: Callable) -> tuple[float, object]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def _on_device(call: Callable) -> float:
    """Seconds of a call and of what it leaves for the device to do."""

    def whole() -> None:
        call()
        if get_device() != "cpu":
            torch.accelerator.synchronize()

    return _clock(whole)[0]

"""Time of the parts of data loading, and the number of workers that keep up with a model."""

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
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from mmvidformer.config import config_scope
from mmvidformer.datasets.wrapped import with_inner
from mmvidformer.registry import MODELS

# A dataloader that is only as fast as the model still makes it wait at times.
RESERVE = 1.2


class Part(NamedTuple):
    """Cost of one part of data loading.

    Attributes:
        name: Number and name of a transform, or a description.
        process: ``'worker'`` or ``'main'``, the process that runs it.
        milliseconds: Median time per sample.
    """

    name: str
    process: str
    milliseconds: float


def measure_loading(cfg: Config, split: str = "train", samples: int = 32) -> list[Part]:
    """Measure each transform, the rest of the dataset, collating and the data preprocessor.

    Everything runs in this process with one thread, as in a worker. The samples are spread evenly
    over the dataset of the split. The first one is a warmup.

    Raises:
        ValueError: If there is no such dataloader, or its dataset is empty or has no pipeline.
    """
    settings = cfg.model.get("data_preprocessor") or dict(type="BaseDataPreprocessor")
    with config_scope(cfg):
        loader, preprocessor = _build_loader(cfg, split), MODELS.build(settings).to(get_device())
    dataset = loader.dataset
    count = min(samples, len(dataset))
    indices = [i * len(dataset) // count for i in range(count)]
    times: dict[str, list[float]] = {}
    rest, loaded = [], []
    _record_times(dataset, times)
    with _one_thread():
        dataset[indices[0]]
        times.clear()
        for index in tqdm(indices, desc=f"{split} samples", disable=None):
            before = sum(map(sum, times.values()))
            seconds, sample = _clock(lambda i=index: dataset[i])
            rest.append(seconds - (sum(map(sum, times.values())) - before))
            loaded.append(sample)
        del loaded[cfg[f"{split}_dataloader"].batch_size :]
        collating = [_clock(lambda: loader.collate_fn(loaded))[0] for _ in range(5)]
    batch, training = loader.collate_fn(loaded), split == "train"
    preparing = [_clock(lambda: preprocessor(dict(batch), training))[0] for _ in range(5)]
    per_sample = 1000 / len(loaded)
    return [
        Part("annotation and the rest", "worker", 1000 * median(rest)),
        *(Part(name, "worker", 1000 * median(seconds)) for name, seconds in times.items()),
        Part("collate", "worker", per_sample * median(collating)),
        Part("to the device, normalize", "main", per_sample * median(preparing)),
    ]


def model_rate(cfg: Config, split: str = "train", repeats: int = 5) -> float:
    """Measure the clips per second of a training or test step on this device.

    A step includes the data preprocessor, the forward pass and, in training, the backward pass and
    the optimizer. All steps use the same batch. The first step is a warmup. Weights are random.
    """
    training = split == "train"
    with config_scope(cfg):
        loader = _build_loader(cfg, split)
        model: nn.Module = MODELS.build(cfg.model).to(get_device()).train(training)
        step: Callable = model.test_step
        if training:
            wrapper = build_optim_wrapper(model, {**cfg.optim_wrapper, "accumulative_counts": 1})
            step = partial(model.train_step, optim_wrapper=wrapper)
    size = min(cfg[f"{split}_dataloader"].batch_size, len(loader.dataset))
    batch = loader.collate_fn([loader.dataset[i] for i in range(size)])
    with torch.set_grad_enabled(training):
        times = [_clock(lambda: step(dict(batch)))[0] for _ in range(repeats + 1)]
    return size / median(times[1:])


def loading_rate(parts: Sequence[Part], workers: int, cores: int) -> float:
    """Return the samples per second of a dataloader, limited only by its workers and the cores.

    No workers count as one, since the main process loads the data.
    """
    milliseconds = sum(part.milliseconds for part in parts if part.process == "worker")
    return 1000 * min(max(workers, 1), cores) / milliseconds


def suggest_workers(parts: Sequence[Part], model: float, cores: int) -> int | None:
    """Return the fewest workers that keep a model busy, or None if there are too few cores.

    ``model`` is the number of samples per second of the model.
    """
    needed = max(1, ceil(RESERVE * model / loading_rate(parts, 1, cores)))
    return needed if needed <= cores else None


def _build_loader(cfg: Config, split: str) -> DataLoader:
    settings = cfg.get(f"{split}_dataloader")
    loader = Runner.build_dataloader(settings) if settings else None
    if not (loader and len(loader.dataset)):
        raise ValueError(f"the config has no {split}_dataloader, or its dataset is empty")
    return loader


def _record_times(dataset: Dataset, times: dict[str, list[float]]) -> None:
    """Let the transforms of a dataset append the seconds of each call to ``times``."""

    def timed(name: str, transform: Callable) -> Callable:
        def call(results: dict) -> dict:
            seconds, results = _clock(lambda: transform(results))
            times.setdefault(name, []).append(seconds)
            return results

        return call

    pipelines = [inner.pipeline for inner in with_inner(dataset) if hasattr(inner, "pipeline")]
    if not pipelines:
        raise ValueError(f"{type(dataset).__name__} has no pipeline of transforms to measure")
    for pipeline in pipelines:
        pipeline.transforms = [
            timed(f"{number} {type(transform).__name__}", transform)
            for number, transform in enumerate(pipeline.transforms, 1)
        ]


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


def _clock(call: Callable) -> tuple[float, object]:
    """Return the seconds of a call until the device has finished, and its result."""
    start = time.perf_counter()
    result = call()
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return time.perf_counter() - start, result

"""Measure the parts of data loading, and whether the dataloader keeps up with the model.

python tools/benchmark_data.py CONFIG [--split train] [--model] [--out work_dirs/benchmark_data]

Prints the median milliseconds of each part for one sample in one process. --out writes data.csv.
With --model, which measures the model's step, or --clips-per-second, the slower of dataloader and
model is named and a number of workers suggested. Dataloader workers run the parts of process
"worker", between two steps of the model the main process runs those of process "main".
"""

import os
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import ceil
from pathlib import Path
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

from mmvidformer.analysis.tables import print_table
from mmvidformer.config import config_scope, load_config
from mmvidformer.datasets.decoding.readers import BACKENDS
from mmvidformer.datasets.wrapped import with_inner
from mmvidformer.engine.decoding import set_video_backend
from mmvidformer.engine.launch import add_model_arguments, run_tool
from mmvidformer.registry import MODELS

# A dataloader that is only as fast as the model still makes it wait at times.
RESERVE = 1.2


class Part(NamedTuple):
    """Cost of one part of data loading: median time per sample in ``'worker'`` or ``'main'``."""

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


def rows_of(parts: Sequence[Part]) -> list[list[str]]:
    """Return the rows of the table; fractions are those of the worker's total."""
    total = sum(part.milliseconds for part in parts if part.process == "worker")
    rows = []
    for part in [*parts, Part("total", "worker", total)]:
        fraction = f"{part.milliseconds / total:.1%}" if part.process == "worker" else ""
        rows.append([part.name, part.process, f"{part.milliseconds:.3f}", fraction])
    return rows


def compare(parts: Sequence[Part], model: float, workers: int, cores: int) -> str:
    """Return a sentence on the clips per second of dataloader and model."""
    loader, suggested = loading_rate(parts, workers, cores), suggest_workers(parts, model, cores)
    text = (
        f"{workers} workers load {loader:.1f} clips per second, the model processes {model:.1f}: "
        f"the {'dataloader' if loader < model else 'model'} is the bottleneck. "
    )
    if suggested is not None:
        return text + f"Suggested: {suggested} workers per process."
    slowest = max(parts, key=lambda part: part.milliseconds * (part.process == "worker"))
    return text + f"{cores} cores are too few for more; the slowest part is {slowest.name}."


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser, checkpoint=False, device=False)
    parser.add_argument("--split", choices=["train", "val", "test"], default="train")
    parser.add_argument("--samples", type=int, default=32, help="samples to load (default 32)")
    parser.add_argument("--workers", type=int, help="dataloader workers; default: the config's")
    parser.add_argument("--cores", type=int, help="cores for them; default: those of this process")
    rate = parser.add_mutually_exclusive_group()
    rate.add_argument("--model", action="store_true", help="measure the model's step")
    rate.add_argument("--clips-per-second", type=float, help="speed of the model, if known")
    parser.add_argument("--video-backend", choices=BACKENDS, help="library that decodes videos")
    parser.add_argument("--out", type=Path, help="folder for data.csv")
    args = parser.parse_args(argv)

    cfg = load_config(args.config, args.cfg_options)
    if args.video_backend:
        set_video_backend(cfg, args.video_backend)
    parts, title = measure_loading(cfg, args.split, args.samples), f"{args.config}, {args.split}"
    file = args.out / "data.csv" if args.out else None
    print_table(["part", "process", "ms", "fraction"], rows_of(parts), title, file)
    model = model_rate(cfg, args.split) if args.model else args.clips_per_second
    if model is not None:
        workers = args.workers
        if workers is None:
            workers = cfg[f"{args.split}_dataloader"].get("num_workers", 0)
        affinity = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
        print(compare(parts, model, workers, args.cores or len(affinity(0))))


if __name__ == "__main__":
    sys.exit(run_tool(main))

"""Time and memory of a config's model and its baselines, measured in turn in one run."""

import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from torch import Tensor

from benchmarks.baselines import OPTIMIZED, OURS, Entry, build_entries
from benchmarks.memory import peak_memory
from benchmarks.timing import copy_rate, matmul_rate, time_call
from mmvidformer.config import clip_shape
from mmvidformer.errors import UserError
from mmvidformer.models.fast.compiled_blocks import compile_blocks

PASSES = ("inference", "training")
COMPILED = ("model", "blocks")
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Settings:
    """Settings of a comparison.

    Args:
        device: ``'cpu'`` or ``'cuda'``.
        dtype: Data type; all but float32 use autocast.
        compiled: What ``torch.compile`` compiles, one of ``COMPILED``; None: nothing.
        threads: Number of PyTorch's threads on a CPU.
        batch: Number of clips per step.
        optimize: Whether to include the optimized model.
        repeats: Number of timed rounds; each round runs all models once.
        warmup: Number of rounds before them.
        memory: Whether to measure peak memory, on a CPU each model in a process of its own.
        without: Names of baselines to leave out.
    """

    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    compiled: str | None = None
    threads: int = 1
    batch: int = 1
    optimize: bool = True
    repeats: int = 5
    warmup: int = 1
    memory: bool = True
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """Measurement of one model.

    Args:
        model: Name of the model.
        phase: One of ``PASSES``. A training step is a forward and a backward pass, and SGD.
        seconds: Median over the rounds.
        cpu_seconds: Median of the CPU time of all threads; on a GPU the same as ``seconds``.
        least_cpu_seconds: Least of them, which other programs on the machine change least.
        ratio: Median over the rounds of the time relative to this package's model in the same
            round, the optimized one if it is included.
        cpu_ratio: The same for the CPU time.
        clips_per_second: Batch size divided by ``seconds``.
        peak: Peak memory in bytes beyond weights and input; None if not measured.
        macs: Multiply-accumulates of the forward pass of one clip.
        matmul_floor: Seconds of a large matmul with as many multiply-accumulates; three times as
            many for a training step.
        copy_floor: Seconds of a copy of as many bytes as weights and clip; three times as many
            for a training step.
    """

    model: str
    phase: str
    seconds: float
    cpu_seconds: float
    least_cpu_seconds: float
    ratio: float
    cpu_ratio: float
    clips_per_second: float
    peak: int | None
    macs: int
    matmul_floor: float
    copy_floor: float


def compare(model: Mapping, settings: Settings, passes: Sequence[str] = PASSES) -> list[Result]:
    """Measure a config's model and its baselines.

    Args:
        model: ``model`` of a config.
        settings: Settings of the comparison.
        passes: Any of ``PASSES``.

    Raises:
        UserError: If the logits of a baseline differ by more than 1e-4.
    """
    torch.set_num_threads(settings.threads)
    shape = clip_shape(Config({"model": dict(model)}))
    clip = torch.randn(settings.batch, *shape)
    entries = [
        entry
        for entry in build_entries(model, settings.optimize, trained="training" in passes)
        if entry.name not in settings.without
    ]
    check_equal(entries, clip[:1])
    macs = {entry.name: entry.macs(shape) for entry in entries}
    # Some baselines have operators that cannot be counted, but compute the same function.
    macs |= {e.name: macs[OURS] for e in entries if e.comparable and not e.name.startswith(OURS)}
    rates = matmul_rate(settings.device, settings.dtype), copy_rate(settings.device)
    results = []
    for phase in passes:
        calls = {entry.name: _call(entry, clip, phase, settings) for entry in entries}
        rounds = take_turns(calls, settings)
        ours = rounds.get(OPTIMIZED, rounds[OURS])
        for name, times in rounds.items():
            entry = next(e for e in entries if e.name == name)
            weights = sum(p.numel() for p in entry.module.parameters())
            size = (weights + clip.numel()) * settings.dtype.itemsize
            # Training computes all that optimize_for_inference leaves out.
            count = macs[OURS if phase == "training" and name == OPTIMIZED else name]
            work = (1 if phase == "inference" else 3) * settings.batch * count
            traffic = (1 if phase == "inference" else 3) * size
            seconds, cpu_seconds = np.median(times, axis=0).tolist()
            peak = None
            if settings.memory and settings.device == "cuda":
                peak = _peak_of_call(calls[name], settings)
            elif settings.memory:
                peak = _peak_in_process(model, name, phase, settings)
            # Of each round, to the same round of ours.
            ratio, cpu_ratio = np.median(np.divide(times, ours), axis=0).tolist()
            results.append(
                Result(
                    name,
                    phase,
                    seconds,
                    cpu_seconds,
                    min(cpu for _, cpu in times),
                    ratio,
                    cpu_ratio,
                    settings.batch / seconds,
                    peak,
                    count,
                    work / rates[0],
                    traffic / rates[1],
                )
            )
    return results


def check_equal(entries: Sequence[Entry], clip: Tensor) -> None:
    """Compare the logits of all models that compute the same function.

    Raises:
        UserError: If they differ from the first model's by more than 1e-4.
    """
    with torch.inference_mode():
        expected, *others = (
            (entry.name, entry.module.eval()(entry.layout(clip)))
            for entry in entries
            if entry.comparable
        )
    for name, logits in others:
        off = (logits - expected[1]).abs().max().item()
        if not off <= TOLERANCE:
            raise UserError(
                f"the logits of {name} and {expected[0]} differ by {off:.1e}, but at most "
                f"{TOLERANCE:.0e} is allowed; nothing was measured"
            )


def take_turns(
    calls: Mapping[str, Callable[[], object]], settings: Settings
) -> dict[str, list[tuple[float, float]]]:
    """Call each of several functions once in each round, and return its seconds (``time_call``)."""
    for _ in range(settings.warmup):
        for call in calls.values():
            call()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(settings.repeats):
        for name, call in calls.items():
            times[name].append(time_call(call, settings.device))
            # What is measured stays if this process is stopped.
            print(f"{name}: {times[name][-1][1]:.3f} s of CPU time", file=sys.stderr, flush=True)
    return times


def _call(entry: Entry, clip: Tensor, phase: str, settings: Settings) -> Callable[[], object]:
    """Return a function that runs one pass of a model on the device."""
    inputs = entry.layout(clip).to(settings.device)
    module = (phase == "training" and entry.trained) or entry.module
    module = module.to(settings.device)
    forward: Callable = module
    if settings.compiled == "blocks" and entry.name in (OURS, OPTIMIZED):
        compile_blocks(module)
    elif settings.compiled:  # those of others have no blocks of ours
        forward = torch.compile(module)
    mixed = settings.dtype != torch.float32

    def logits() -> Tensor:
        with torch.autocast(settings.device, settings.dtype, enabled=mixed):
            return forward(inputs)

    if phase == "inference":
        module.eval()

        def infer() -> None:
            with torch.inference_mode():
                logits()

        return infer
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-6)
    labels = torch.zeros(len(inputs), dtype=torch.long, device=settings.device)

    def train() -> None:
        F.cross_entropy(logits().float(), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return train


def measure_peak(model: Mapping, name: str, phase: str, settings: Settings) -> int:
    """Measure the peak memory in bytes of one pass of one model, in this process."""
    torch.set_num_threads(settings.threads)
    entry = next(e for e in build_entries(model, settings.optimize) if e.name == name)
    clip = torch.randn(settings.batch, *clip_shape(Config({"model": dict(model)})))
    call = _call(entry, clip, phase, settings)
    # Compiling needs memory, and the first pass on a GPU allocates workspaces.
    if settings.compiled or settings.device == "cuda":
        call()
    return _peak_of_call(call, settings)


def _peak_of_call(call: Callable[[], object], settings: Settings) -> int:
    return peak_memory(lambda _: call(), torch.empty(0, device=settings.device))


def _peak_in_process(model: Mapping, name: str, phase: str, settings: Settings) -> int:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure_peak, dict(model), name, phase, settings).result()

"""Time, memory and floors of a config's model beside its peers, measured in turn in one run."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from statistics import median

import torch
import torch.nn.functional as F
from mmengine.config import Config
from torch import Tensor

from benchmarks.baselines import OPTIMISED, OURS, Contestant, contestants
from benchmarks.timing import copy_rate, product_rate, time_call
from mmvidformer.analysis.memory import peak_memory
from mmvidformer.config import clip_shape

PASSES = ("inference", "training")
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Settings:
    """How it is measured.

    Args:
        device: ``'cpu'`` or ``'cuda'``.
        dtype: Other than float32: under autocast, in all contestants.
        compiled: ``torch.compile`` all contestants.
        threads: Of PyTorch on a CPU.
        batch: Clips at once.
        optimise: Let the optimised model take part.
        repeats: Timed rounds; in each all contestants have their turn.
        warmup: Rounds before them.
        memory: Measure peak memory, each contestant in a process of its own.
    """

    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    compiled: bool = False
    threads: int = 1
    batch: int = 1
    optimise: bool = True
    repeats: int = 5
    warmup: int = 1
    memory: bool = True


@dataclass(frozen=True)
class Result:
    """What was measured of a contestant.

    Args:
        contestant: Its name.
        kind: One of ``PASSES``; a training step is a forward and a backward pass, and SGD.
        seconds: Median of the rounds.
        busy: Median of the processor time, all threads together; on a GPU as ``seconds``.
        ratio: Median over the rounds of its seconds over ours in the same round: those of the
            optimised model where it takes part.
        busy_ratio: The same of the processor time.
        clips_per_second: Batch over ``seconds``.
        peak: Bytes at the peak beyond weights and input; None if not measured.
        macs: Multiply-accumulates of the forward pass of one clip.
        product_floor: Seconds that a large matrix product would take for as many products;
            a training step has three times as many.
        copy_floor: Seconds that copying takes which moves as many bytes as weights and clip have,
            for a training step three times.
    """

    contestant: str
    kind: str
    seconds: float
    busy: float
    ratio: float
    busy_ratio: float
    clips_per_second: float
    peak: int | None
    macs: int
    product_floor: float
    copy_floor: float


def compete(model: Mapping, settings: Settings, passes: Sequence[str] = PASSES) -> list[Result]:
    """Measure a config's model and its peers.

    Args:
        model: ``model`` of a config.
        settings: How.
        passes: Which of ``PASSES``.

    Raises:
        ValueError: If the logits of a peer differ from ours by more than 1e-4.
    """
    torch.set_num_threads(settings.threads)
    shape = clip_shape(Config({"model": dict(model)}))
    clip = torch.randn(settings.batch, *shape)
    entries = list(contestants(model, settings.optimise))
    check_equal(entries, clip)
    macs = {entry.name: entry.macs(shape) for entry in entries}
    # Attention of some peers has operators that cannot be counted; the function is ours.
    macs |= {e.name: macs[OURS] for e in entries if e.comparable and not e.name.startswith(OURS)}
    rates = product_rate(settings.device, settings.dtype), copy_rate(settings.device)
    results = []
    for kind in passes:
        active = [entry for entry in entries if entry.trains or kind == "inference"]
        rounds = _rounds(active, clip, kind, settings)
        ours = rounds.get(OPTIMISED, rounds[OURS])
        for name, times in rounds.items():
            entry = next(e for e in entries if e.name == name)
            weights = sum(p.numel() for p in entry.module.parameters())
            size = (weights + clip.numel()) * settings.dtype.itemsize
            work = (1 if kind == "inference" else 3) * settings.batch * macs[name]
            traffic = (1 if kind == "inference" else 3) * size
            seconds, busy = (median(column) for column in zip(*times, strict=True))
            shares = [
                [mine / first for mine, first in zip(row, reference, strict=True)]
                for row, reference in zip(times, ours, strict=True)
            ]
            results.append(
                Result(
                    name,
                    kind,
                    seconds,
                    busy,
                    *(median(column) for column in zip(*shares, strict=True)),
                    settings.batch / seconds,
                    _peak_elsewhere(model, name, kind, settings) if settings.memory else None,
                    macs[name],
                    work / rates[0],
                    traffic / rates[1],
                )
            )
    return results


def check_equal(entries: Sequence[Contestant], clip: Tensor) -> None:
    """Compare the logits of all that compute the same function.

    Raises:
        ValueError: If those of one differ from the first one's by more than 1e-4.
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
            raise ValueError(
                f"{name} gives other logits than {expected[0]}: they differ by {off:.1e}, and "
                f"{TOLERANCE:.0e} is allowed; nothing is measured"
            )


def _rounds(
    entries: Sequence[Contestant], clip: Tensor, kind: str, settings: Settings
) -> dict[str, list[tuple[float, float]]]:
    calls = {entry.name: _call(entry, clip, kind, settings) for entry in entries}
    for _ in range(settings.warmup):
        for call in calls.values():
            call()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(settings.repeats):
        for name, call in calls.items():
            times[name].append(time_call(call, settings.device))
    return times


def _call(entry: Contestant, clip: Tensor, kind: str, settings: Settings) -> Callable[[], object]:
    """One pass of a contestant, on the device."""
    inputs = entry.layout(clip).to(settings.device)
    module = entry.module.to(settings.device)
    forward = torch.compile(module) if settings.compiled else module
    mixed = settings.dtype != torch.float32

    def logits() -> Tensor:
        with torch.autocast(settings.device, settings.dtype, enabled=mixed):
            return forward(inputs)

    if kind == "inference":
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


def measure_peak(model: Mapping, name: str, kind: str, settings: Settings) -> int:
    """Bytes at the peak of one pass of one contestant, in this process."""
    torch.set_num_threads(settings.threads)
    entry = next(e for e in contestants(model, settings.optimise) if e.name == name)
    clip = torch.randn(settings.batch, *clip_shape(Config({"model": dict(model)})))
    call = _call(entry, clip, kind, settings)
    # Compiling needs memory of its own, and the first pass of a GPU workspaces that stay.
    if settings.compiled or settings.device == "cuda":
        call()
    return peak_memory(lambda _: call(), torch.empty(0, device=settings.device))


def _peak_elsewhere(model: Mapping, name: str, kind: str, settings: Settings) -> int:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure_peak, dict(model), name, kind, settings).result()

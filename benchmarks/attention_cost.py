"""Time, peak memory and multiply-accumulates of a forward pass with each kind of attention.

``python -m benchmarks.attention`` measures them.
"""

import itertools
import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
import torch
from mmengine.registry import DefaultScope
from torch import Tensor, nn

import lab.papers.kernels  # noqa: F401  (registers the baselines)
from benchmarks.memory import peak_memory
from benchmarks.timing import time_call
from mmvidformer.apis.complexity import count_macs
from mmvidformer.layers import Context, Grid
from mmvidformer.lookup import look_up
from mmvidformer.models.feature_fixation import ARCH
from mmvidformer.registry import MODELS

BASELINES = ("linear", "performer", "cosformer", "linformer", "orthoformer", "lara", "softmax")
# Arguments of FeatureFixationTransformer. The baselines have neither gates nor shifts. Those of
# Table 8 of the feature fixation paper have both, as in the authors' config of that test.
KERNELS: dict[str, dict] = {
    "fixation": {},
    **{name: {"kernel": name, "fixation": None, "shifts": {}} for name in BASELINES},
    "gated_orthoformer": {"kernel": "orthoformer"},
    "gated_softmax": {"kernel": "softmax"},
}
CLASSES = 174


@dataclass(frozen=True)
class Case:
    """A model and a clip to measure.

    Args:
        kernel: Key of ``KERNELS``.
        attention: Scheme of ``FeatureFixationTransformer``.
        frames: Number of frames.
        size: Side of the crop in pixels.
        arch: Architecture (see ``FeatureFixationTransformer``).
        batch: Number of clips.
        attention_only: Whether to measure only the attention layers of one block on random
            tokens, instead of the model with its head.
    """

    kernel: str
    attention: str = "time_space"
    frames: int = 16
    size: int = 224
    arch: Mapping = field(default_factory=lambda: ARCH)
    batch: int = 1
    attention_only: bool = False


@dataclass(frozen=True)
class Cost:
    """Cost of a case.

    Args:
        case: The case.
        tokens: Number of tokens of a clip, T H W.
        macs: Multiply-accumulates of a clip (see ``complexity.Complexity``).
        seconds: Median time of a forward pass; None if memory did not suffice.
        cpu_seconds: Median CPU time of a pass, all threads together, which depends less on other
            programs on the machine; on a GPU the same as ``seconds``.
        memory: Peak memory of a pass in bytes beyond weights and input.
    """

    case: Case
    tokens: int
    macs: int
    seconds: float | None = None
    cpu_seconds: float | None = None
    memory: int | None = None

    @property
    def videos_per_second(self) -> float | None:
        """Clips per second."""
        return None if self.seconds is None else self.case.batch / self.seconds


class AttentionsOfBlock(nn.Module):
    """The attention layers of a block, without norms, residual connections and MLP."""

    def __init__(self, sublayers: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(sublayer.attn for sublayer in sublayers.values())

    def forward(self, grid: Tensor) -> Tensor:
        """Map tokens (B, T, H, W, D) to tokens of the same shape."""
        order = Grid(*grid.shape[1:4])
        tokens = grid.flatten(1, 3)
        for attention in self.attentions:
            tokens = attention(tokens, Context(order))
        return tokens.unflatten(1, order.size)


def build(case: Case, device: str) -> tuple[nn.Module, Tensor, int]:
    """Build the module of a case.

    Args:
        case: The case.
        device: Device, also ``'meta'``.

    Returns:
        Module, its input, and the number of tokens of a clip.

    Raises:
        KeyError: If the kind or a part of the model is unknown.
    """
    backbone = dict(
        type="mmvidformer.FeatureFixationTransformer",
        arch=case.arch,
        scheme=case.attention,
        img_size=case.size,
        clip_len=case.frames,
        **look_up(KERNELS, case.kernel, "kind of attention"),
    )
    with DefaultScope.overwrite_default_scope("mmaction"), torch.device(device):
        model = MODELS.build(backbone)
        dim = model.embed_dims
        grid = model.embed.grid((case.frames, case.size, case.size))
        if case.attention_only:
            module = AttentionsOfBlock(model.encoders[0].blocks[0].sublayers)
            inputs = torch.randn(case.batch, *grid, dim)
        else:
            head = dict(type="mmvidformer.TokenMlpHead", num_classes=CLASSES, in_channels=dim)
            module = nn.Sequential(model, MODELS.build(head))
            inputs = torch.randn(case.batch, 3, case.frames, case.size, case.size)
    return module.eval().requires_grad_(False), inputs, grid[0] * grid[1] * grid[2]


def measure(
    case: Case,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    repeats: int = 10,
    warmup: int = 3,
    memory_limit: int | None = None,
) -> Cost:
    """Measure a case. If memory does not suffice, time and memory are None.

    Args:
        case: The case.
        device: ``'cpu'`` or ``'cuda'``.
        dtype: Data type; all but float32 use autocast.
        repeats: Number of timed passes.
        warmup: Number of passes before them.
        memory_limit: Bytes that the process may allocate on a CPU. Default: all free memory.
            Without a limit the system would kill the process.
    """
    module, inputs, tokens = build(case, "meta")
    macs = count_macs(module, inputs) // case.batch
    try:
        with memory_allowance(device, memory_limit):
            measured = _run(case, device, dtype, repeats, warmup)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        measured = ()
    if device == "cuda":
        torch.cuda.empty_cache()
    return Cost(case, tokens, macs, *measured)


def _run(
    case: Case, device: str, dtype: torch.dtype, repeats: int, warmup: int
) -> tuple[float, float, int]:
    module, inputs, _ = build(case, device)
    with torch.inference_mode(), torch.autocast(device, dtype, enabled=dtype != torch.float32):
        for _ in range(warmup):
            module(inputs)
        passes = [time_call(lambda: module(inputs), device) for _ in range(repeats)]
        seconds, cpu_seconds = map(median, zip(*passes, strict=True))
        return seconds, cpu_seconds, peak_memory(module, inputs)


@contextmanager
def memory_allowance(device: str, limit: int | None = None) -> Iterator[None]:
    """Let allocations on a CPU fail before the system runs out of memory and kills the process.

    Args:
        device: Nothing is limited on other devices than ``'cpu'``.
        limit: Bytes that the process may allocate. Default: all free memory.
    """
    if device != "cpu":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (_free_memory() if limit is None else limit)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _free_memory() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory did not suffice, on a GPU or a CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def cases(
    kernels: Sequence[str],
    attentions: Sequence[str],
    frames: Sequence[int],
    sizes: Sequence[int],
    **settings: object,
) -> list[Case]:
    """Return all combinations, sorted from the smallest to the largest clip of each kind."""
    grid = sorted(itertools.product(frames, sizes), key=lambda clip: clip[0] * clip[1] ** 2)
    return [
        Case(kernel, attention, *clip, **settings)
        for attention, kernel, clip in itertools.product(attentions, kernels, grid)
    ]


@dataclass(frozen=True)
class Growth:
    """Growth of costs with the number of tokens, as slopes on logarithmic axes.

    A slope of 1 is linear growth, 2 quadratic.

    Args:
        attention: Scheme.
        kernel: Key of ``KERNELS``.
        factor: Largest divided by smallest number of tokens.
        time: Slope of the time.
        cpu_time: Slope of the CPU time.
        memory: Slope of the peak memory.
        macs: Slope of the multiply-accumulates.
    """

    attention: str
    kernel: str
    factor: float
    time: float
    cpu_time: float
    memory: float
    macs: float


def growth(costs: Sequence[Cost]) -> Iterator[Growth]:
    """Fit the growth of each kind and scheme with several numbers of tokens."""
    groups: dict[tuple[str, str], list[Cost]] = {}
    for cost in costs:
        if cost.seconds is not None:
            groups.setdefault((cost.case.attention, cost.case.kernel), []).append(cost)
    for (attention, kernel), group in groups.items():
        tokens = [cost.tokens for cost in group]
        if len(set(tokens)) < 2:
            continue
        slopes = []
        for name in ("seconds", "cpu_seconds", "memory", "macs"):
            values = [getattr(cost, name) for cost in group]
            slopes.append(fit_slope(tokens, values))
        yield Growth(attention, kernel, max(tokens) / min(tokens), *slopes)


def fit_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the slope of the least-squares line through (log x, log y)."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])

"""What attention costs: time and peak memory of one forward pass, measured, and its products."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from mmengine.registry import DefaultScope
from torch import Tensor, nn

from benchmarks.timing import time_call
from mmvidformer.analysis.complexity import count_products
from mmvidformer.analysis.memory import memory_allowance, out_of_memory, peak_memory
from mmvidformer.registry import MODELS

RIVALS = ("linear", "performer", "cosformer", "linformer", "orthoformer", "lara", "softmax")
# Name of a row: arguments of FeatureFixationTransformer. The rivals take the place of the whole
# attention, without gates and shifts, as in Table 8 of the paper on feature fixation.
KINDS: dict[str, dict] = {
    "fixation": {},
    **{name: {"kernel": name, "fixation": None, "shifts": {}} for name in RIVALS},
}
CLASSES = 174


@dataclass(frozen=True)
class Case:
    """What is measured.

    Args:
        kind: A name of ``KINDS``.
        attention: A scheme of ``FeatureFixationTransformer``.
        frames: Frames of the clip.
        size: Side of the crop in pixels.
        arch: ``'b'``, or a dictionary as of ``FeatureFixationTransformer``.
        batch: Clips at once.
        attention_only: The attentions of one block alone, on random tokens, instead of the model
            with its head.
    """

    kind: str
    attention: str = "time_space"
    frames: int = 16
    size: int = 224
    arch: str | Mapping = "b"
    batch: int = 1
    attention_only: bool = False


@dataclass(frozen=True)
class Cost:
    """What a case costs.

    Args:
        case: The case.
        tokens: Tokens of a clip, T H W.
        macs: Multiply-accumulates of a clip (see ``complexity.Complexity``).
        seconds: Median of a forward pass of the batch; None where memory did not suffice.
        busy: Median of the processor time of a pass, all threads together, which other programs
            on the machine change far less; on a GPU the same as ``seconds``.
        memory: Bytes at the peak of a pass beyond weights and input; None as for ``seconds``.
    """

    case: Case
    tokens: int
    macs: int
    seconds: float | None = None
    busy: float | None = None
    memory: int | None = None

    @property
    def videos_per_second(self) -> float | None:
        """Clips a second."""
        return None if self.seconds is None else self.case.batch / self.seconds


class AttentionsOfBlock(nn.Module):
    """The attentions of a block one after the other, without norms, residuals and MLP."""

    def __init__(self, sublayers: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(sublayer.attn for sublayer in sublayers.values())

    def forward(self, grid: Tensor) -> Tensor:
        """Map tokens (B, T, H, W, D) to tokens."""
        for attention in self.attentions:
            grid = attention(grid)[0]
        return grid


def build(case: Case, device: str) -> tuple[nn.Module, Tensor, int]:
    """Build what a case measures.

    Args:
        case: The case.
        device: Where; on ``'meta'`` without any numbers.

    Returns:
        Module, its input, and the tokens of a clip.

    Raises:
        KeyError: If the kind or a part of the model is unknown.
    """
    if case.kind not in KINDS:
        raise KeyError(f"nothing to measure named {case.kind!r}; known are {sorted(KINDS)}")
    backbone = dict(
        type="mmvidformer.FeatureFixationTransformer",
        arch=case.arch,
        attention=case.attention,
        img_size=case.size,
        clip_len=case.frames,
        **KINDS[case.kind],
    )
    with DefaultScope.overwrite_default_scope("mmaction"), torch.device(device):
        model = MODELS.build(backbone)
        dim = model.embed_dims
        grid = model.embed.grid((case.frames, case.size, case.size))
        if case.attention_only:
            module = AttentionsOfBlock(model.encoder.blocks[0].sublayers)
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
    """Measure a case; where memory does not suffice that is the result, not an error.

    Args:
        case: The case.
        device: ``'cpu'`` or ``'cuda'``, whose passes are timed by device events.
        dtype: Other than float32: under autocast, where sums stay float32.
        repeats: Timed passes.
        warmup: Passes before them.
        memory_limit: On a CPU: bytes that the process may take more than it has; default: what
            the machine has free. (Without a limit the system would end the process.)
    """
    module, inputs, tokens = build(case, "meta")
    macs = count_products(module, inputs) // case.batch
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
        seconds, busy = map(median, zip(*passes, strict=True))
        return seconds, busy, peak_memory(module, inputs)


def cases(
    kinds: Sequence[str],
    attentions: Sequence[str],
    frames: Sequence[int],
    sizes: Sequence[int],
    **settings: object,
) -> list[Case]:
    """All combinations, from the smallest clip of each kind to the largest."""
    grid = sorted(itertools.product(frames, sizes), key=lambda clip: clip[0] * clip[1] ** 2)
    return [
        Case(kind, attention, *clip, **settings)
        for attention, kind, clip in itertools.product(attentions, kinds, grid)
    ]


@dataclass(frozen=True)
class Growth:
    """How costs grow with the tokens: slopes of straight lines through their logarithms.

    A slope of 1 is linear growth, 2 quadratic.

    Args:
        attention: The scheme.
        kind: The kind.
        factor: Most over fewest tokens that were measured.
        time: Slope of the median time.
        busy: Slope of the processor time.
        memory: Slope of the peak memory.
        macs: Slope of the multiply-accumulates.
    """

    attention: str
    kind: str
    factor: float
    time: float
    busy: float
    memory: float
    macs: float


def growth(costs: Sequence[Cost]) -> Iterator[Growth]:
    """Fit the growth of each kind and scheme for which several numbers of tokens were measured."""
    groups: dict[tuple[str, str], list[Cost]] = {}
    for cost in costs:
        if cost.seconds is not None:
            groups.setdefault((cost.case.attention, cost.case.kind), []).append(cost)
    for (attention, kind), group in groups.items():
        tokens = [cost.tokens for cost in group]
        if len(set(tokens)) < 2:
            continue
        slopes = [
            fit_slope(tokens, [getattr(cost, name) for cost in group])
            for name in ("seconds", "busy", "memory", "macs")
        ]
        yield Growth(attention, kind, max(tokens) / min(tokens), *slopes)


def fit_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of the least-squares line through (log x, log y)."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])

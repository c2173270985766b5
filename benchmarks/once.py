"""What a device must not compute or keep again: python -m benchmarks.once PART --device cuda.

windows     memory of shifted windows, whose mask all clips share: what it adds for each clip more
places      sines of tables of positions, computed in the first pass of a size and in no later one
recurrence  time of the recurrence over T steps, and of an associative scan in its place

The exit status is 1 if a mask is copied for each clip, a table is computed again, or the scan and
the loop differ. --out PATH writes PATH.csv.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.memory import peak_memory
from benchmarks.outputs import parse_with_results, with_suffixes
from benchmarks.timing import time_call
from mmvidformer.engine.loading import default_device
from mmvidformer.engine.tables import print_table
from mmvidformer.layers import eager
from mmvidformer.layers.kernels.softmax import SoftmaxKernel
from mmvidformer.layers.patterns.window import window
from mmvidformer.models import VideoTransformer

MOST = 1e-4  # largest difference of two ways, as a share
WIDTH = 32  # of a head
POSITIONS = {
    "axial rotary": dict(rope="axial"),
    "sines of frames, rows and columns": dict(positions=dict(type="joint", fixed=True)),
    "sines of all places": dict(positions=dict(fixed="flat")),
}


class Table(NamedTuple):
    """A header, rows, and whether all is as it must be."""

    header: tuple[str, ...]
    rows: list[list[str]]
    holds: bool


@torch.no_grad()
def measure_windows(device: str, size: int) -> Table:
    """Peak memory of a head in shifted windows of 8 x 7 x 7 of a grid (16, size, size)."""
    pattern, kernel, rows = window((8, 7, 7), (4, 3, 3)), SoftmaxKernel(WIDTH), []
    added = []
    for clips in (1, 5):
        x = torch.randn(clips, 16, size, size, 1, WIDTH, device=device)
        mask = pattern.mask(x)
        groups = pattern.group(x)
        plain = peak_memory(lambda x: kernel(x, x, x), groups.flatten(0, 1))
        masked = peak_memory(lambda x, mask=mask: kernel(x, x, x, mask), groups)
        added.append((masked - plain) / 2**20)
        rows.append([str(clips), f"{plain / 2**20:.2f}", f"{masked / 2**20:.2f}"])
    of_clip, of_mask = (added[1] - added[0]) / 4, mask.numel() * 4 / 2**20
    for row in rows:
        row += [f"{of_clip:.2f}", f"{of_mask:.2f}"]
    header = ("clips", "peak MiB without a mask", "with it", "added by each clip", "mask MiB")
    return Table(header, rows, of_clip < of_mask)


class Sines(TorchDispatchMode):
    """Counts the sines that are computed."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        self.count += func.overloadpacket.__name__ == "sin"
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def measure_places(device: str, size: int) -> Table:
    """Sines of a model of two blocks for clips of size x size patches."""
    arch, rows = dict(embed_dims=2 * WIDTH, depth=2, num_heads=2), []
    for name, options in POSITIONS.items():
        stem = dict(tubelet=(1, 8, 8))
        model = VideoTransformer(arch, img_size=8 * size, clip_len=4, stem=stem, **options)
        model.to(device).eval()
        clip = torch.randn(1, 3, 4, 8 * size, 8 * size, device=device)
        eager._keep.cache_clear()
        counts = []
        for _ in range(2):
            with Sines() as sines:
                model(clip)
            counts.append(sines.count)
        rows.append([name, *map(str, counts)])
    holds = all(row[1] != "0" and row[2] == "0" for row in rows)
    return Table(("positions", "sines in the first pass", "in the second"), rows, holds)


def loop(decay: Tensor, inputs: Tensor) -> Tensor:
    """h_t = a_t h_{t-1} + x_t of (..., T, d), step by step, as the kernel does."""
    hidden, steps = torch.zeros_like(inputs[..., 0, :]), []
    for a, x in zip(decay.unbind(-2), inputs.unbind(-2), strict=True):
        hidden = a * hidden + x
        steps.append(hidden)
    return torch.stack(steps, dim=-2)


def scan(decay: Tensor, inputs: Tensor) -> Tensor:
    """The same in log2(T) steps, each over all times (Hillis and Steele 1986)."""
    distance = 1
    while distance < inputs.shape[-2]:
        earlier = F.pad(inputs, (0, 0, distance, 0))[..., :-distance, :]
        inputs = inputs + decay * earlier
        decay = decay * F.pad(decay, (0, 0, distance, 0))[..., :-distance, :]
        distance *= 2
    return inputs


def measure_recurrence(device: str, size: int) -> Table:
    """Time of both ways for size x size places of 16 x 32 numbers, with the backward pass, too."""
    rows, holds = [], True
    for steps in (8, 32):
        shape = (size * size, 16, steps, WIDTH)
        inputs = torch.randn(shape, device=device, requires_grad=True)
        decay = torch.rand(shape, device=device, requires_grad=True)
        expected = loop(decay, inputs).detach()
        for way in (loop, scan):
            share = (way(decay, inputs) - expected).norm() / expected.norm()
            holds = holds and share.item() <= MOST
            times = [typical(partial(run, way, decay, inputs), device) for run in (answer, train)]
            rows.append([str(steps), way.__name__, *times, f"{share.item():.1e}"])
    return Table(("T", "way", "ms", "ms with gradients", "difference"), rows, holds)


@torch.no_grad()
def answer(way: Callable[[Tensor, Tensor], Tensor], decay: Tensor, inputs: Tensor) -> None:
    """A pass in evaluation."""
    way(decay, inputs)


def train(way: Callable[[Tensor, Tensor], Tensor], decay: Tensor, inputs: Tensor) -> None:
    """A pass and its backward pass."""
    torch.autograd.grad(way(decay, inputs).sum(), [decay, inputs])


def typical(run: Callable[[], None], device: str) -> str:
    """Return the median of 5 calls in ms."""
    run()
    return f"{1000 * median(time_call(run, device)[0] for _ in range(5)):.3f}"


PARTS = {
    "windows": measure_windows,
    "places": measure_places,
    "recurrence": measure_recurrence,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write, and return the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--device", default=default_device())
    parser.add_argument("--size", type=int, default=28, help="rows and columns (default 28)")
    parser.add_argument("--out", type=Path, help="path of the table, without suffix")
    args = parse_with_results(parser, argv, with_suffixes(".csv"))
    table = PARTS[args.part](args.device, args.size)
    print_table(table.header, table.rows, args.device, args.out and f"{args.out}.csv")
    return int(not table.holds)


if __name__ == "__main__":
    sys.exit(main())

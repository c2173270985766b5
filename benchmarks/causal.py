"""Measure causal linear attention: python -m benchmarks.causal.

Prints time, CPU time and peak memory of a kernel in each causal sequence length, beside
``(q k^T) v`` with a mask, which is quadratic in it. Set OMP_NUM_THREADS for the number of threads.
"""

from argparse import ArgumentParser
from collections.abc import Sequence

import torch
from torch import Tensor

from benchmarks.memory import peak_memory
from benchmarks.timing import time_call
from mmvidformer.engine.tables import print_table
from mmvidformer.layers import KERNELS
from mmvidformer.layers.masks import Causal

COLUMNS = ["kernel", "rows", "tokens", "pass", "ms", "CPU ms", "peak MiB"]


def masked(q: Tensor, k: Tensor, v: Tensor, mask: Causal) -> Tensor:
    """Compute ``(q k^T) v`` over the keys that the mask shows, normalized as ``'linear'`` is."""
    pairs = mask.pairs(q.shape[-2], k.shape[-2], q.device)
    scores = (q @ k.transpose(-1, -2)).masked_fill(~pairs, 0)
    return scores @ v / (scores.sum(dim=-1, keepdim=True) + 1e-6)


def measure(name: str, rows: int, tokens: int, dim: int, repeats: int) -> list[list[str]]:
    """Measure inference and training; returns rows of ``COLUMNS``, times the least of all."""
    kernel = masked if name == "masked" else KERNELS.build(name, head_dim=dim).eval()
    q, k, v = torch.rand(3, rows, 1, tokens, dim).unbind()

    def run(q: Tensor) -> None:
        out = kernel(q, k, v, Causal())
        if out.requires_grad:
            out.sum().backward()

    table = []
    for step in ("inference", "training"):
        inputs = q.detach().requires_grad_(step == "training")
        k, v = (x.detach().requires_grad_(step == "training") for x in (k, v))
        times = [time_call(lambda x=inputs: run(x), "cpu") for _ in range(repeats)]
        numbers = [1000 * min(column) for column in zip(*times, strict=True)]
        numbers.append(peak_memory(run, inputs) / 2**20)
        table.append([name, str(rows), str(tokens), step, *(f"{x:.1f}" for x in numbers)])
    return table


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", nargs="+", default=["linear", "cosformer", "masked"])
    parser.add_argument("--rows", type=int, default=588, help="sequences x heads (default 588)")
    parser.add_argument("--tokens", type=int, nargs="+", default=[16, 32, 64, 128])
    parser.add_argument("--dim", type=int, default=64, help="width of a head (default 64)")
    parser.add_argument("--repeats", type=int, default=20, help="the fastest counts (default 20)")
    args = parser.parse_args(argv)
    rows = []
    for tokens in args.tokens:
        for name in args.kernels:
            rows += measure(name, args.rows, tokens, args.dim, args.repeats)
    print_table(COLUMNS, rows, f"{torch.get_num_threads()} threads, width {args.dim}")


if __name__ == "__main__":
    main()

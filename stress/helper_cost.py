"""Measure what reading samples in a helper process costs, in ms from call to answer.

python -m stress.helper_cost
"""

import statistics
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence

import torch

from mmvidformer.datasets.decoding.safe_dataset import SafeDataset

SAMPLES = {"1 x 8 x 224 x 224": 8, "1 x 32 x 224 x 224": 32, "12 x 32 x 224 x 224": 12 * 32}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20, help="number of reads of each size")
    args = parser.parse_args(argv)
    ready = [torch.ones(n, 3, 224, 224, dtype=torch.uint8) for n in SAMPLES.values()]
    data = SafeDataset(ready, time_limit=60)
    begin = time.perf_counter()
    data[0]
    print(f"start and first answer: {1e3 * (time.perf_counter() - begin):.1f} ms")
    for index, name in enumerate(SAMPLES):
        times = []
        for _ in range(args.repeats):
            begin = time.perf_counter()
            data[index]
            times.append(1e3 * (time.perf_counter() - begin))
        middle, least = statistics.median(times), min(times)
        size = ready[index].numel() / 1e6
        print(f"views x frames {name}, {size:.1f} MB: median {middle:.1f} ms, least {least:.1f} ms")


if __name__ == "__main__":
    main()

"""What reading in a helper process costs: ms from request to answer, by the size of a sample.

python -m stress.helper_cost
"""

import statistics
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence

import torch

from mmvidformer.datasets.decoding.guard import random_state
from mmvidformer.datasets.decoding.helper_process import HelperProcess

SAMPLES = {"1 x 8 x 224 x 224": 8, "1 x 32 x 224 x 224": 32, "12 x 32 x 224 x 224": 12 * 32}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    args = parser.parse_args(argv)
    ready = {name: torch.ones(n, 3, 224, 224, dtype=torch.uint8) for name, n in SAMPLES.items()}
    begin = time.perf_counter()
    helper = HelperProcess(lambda request: (ready[request[0]], request[1]))
    helper.submit(("1 x 8 x 224 x 224", ()))
    helper.receive()
    print(f"start and first answer: {1e3 * (time.perf_counter() - begin):.1f} ms")
    for name in SAMPLES:
        times = []
        for _ in range(args.repeats):
            begin = time.perf_counter()
            helper.submit((name, random_state()))
            helper.receive()
            times.append(1e3 * (time.perf_counter() - begin))
        middle, least = statistics.median(times), min(times)
        size = ready[name].numel() / 1e6
        print(f"views x frames {name}, {size:.1f} MB: median {middle:.1f} ms, least {least:.1f} ms")
    helper.stop()


if __name__ == "__main__":
    main()

"""Measure training steps on clips of different lengths against the padded batch.

python -m benchmarks.lengths --arch 192,4,3 --size 112 --threads 1 --out work_dirs/lengths

A step is the forward and the backward pass of a backbone. "time / padded" is the time with a mask
of valid frames relative to that of the padded batch without one, and "bound" is 1.15 x the share of
valid frames. Both steps take turns; the times are the least of all rounds. The exit status is 1 if
a bound is exceeded. Writes OUT.csv.
"""

import csv
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.attention import read_arch
from benchmarks.outputs import parse_with_results, with_suffixes
from benchmarks.timing import time_call
from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer, ViViT

COLUMNS = ("model", "lengths", "padded ms", "time / padded", "valid / padded", "bound")
WINDOWS = [
    [dict(pattern=dict(type="window", size=(2, 7, 7), shift=s))] for s in ((0,) * 3, (1,) * 3)
]
MODELS: dict[str, Callable[..., nn.Module]] = {
    "vivit_st": partial(ViViT, scheme="spacetime"),
    "vivit_fe": partial(ViViT, scheme="factorized_encoder"),
    "vivit_fsa": partial(ViViT, scheme="factorized_self_attention"),
    "timesformer_so": partial(TimeSformer, scheme="space_only", drop_path_rate=0.0),
    "timesformer": partial(TimeSformer, drop_path_rate=0.0),
    "feature_fixation": FeatureFixationTransformer,
    "windows": partial(VideoTransformer, block=WINDOWS),
}
# Shares of the longest clip, for batches of any size.
LENGTHS: dict[str, Callable[[int], list[float]]] = {
    "all equal": lambda batch: [1.0] * batch,
    "half of them short": lambda batch: [1.0 if i % 2 else 0.5 for i in range(batch)],
    "one long": lambda batch: [1.0] + [0.25] * (batch - 1),
    "all different": lambda batch: [(i + 1) / batch for i in range(batch)],
}


def measure(name: str, lengths: str, args: Namespace) -> tuple[float, float, float]:
    """Return the seconds of a step of the padded batch and with a mask, and the valid share."""
    torch.manual_seed(0)
    model = MODELS[name](arch=args.arch, clip_len=args.frames, img_size=args.size)
    model = model.to(args.device).train()
    clips = torch.randn(args.batch, 3, args.frames, args.size, args.size, device=args.device)
    shares = LENGTHS[lengths](args.batch)
    counts = [2 * max(1, round(share * args.frames / 2)) for share in shares]
    valid = torch.arange(args.frames) < torch.tensor(counts)[:, None]

    def step(mask: Tensor | None) -> None:
        model.zero_grad()
        features = model(clips, mask)
        sum(of_clip.square().mean() for of_clip in features).backward()

    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(args.repeats + 1):  # the first round is not counted
        for masked, mask in {False: None, True: valid}.items():
            times[masked].append(time_call(lambda mask=mask: step(mask), args.device)[1])
    return min(times[False][1:]), min(times[True][1:]), valid.float().mean().item()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write; return the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--lengths", nargs="+", choices=LENGTHS, default=list(LENGTHS))
    parser.add_argument("--arch", type=read_arch, default="b", help="b, or width,depth,heads")
    parser.add_argument("--frames", type=int, default=32, help="of the longest clip")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, required=True, help="path of the table, without suffix")
    args = parse_with_results(parser, argv, with_suffixes(".csv"))
    torch.set_num_threads(args.threads)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    exceeded = False
    with open(f"{args.out}.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for name in args.models:
            for lengths in args.lengths:
                padded, masked, share = measure(name, lengths, args)
                exceeded |= masked > 1.15 * share * padded
                row = [name, lengths, f"{padded * 1000:.1f}", f"{masked / padded:.3f}",
                       f"{share:.3f}", f"{1.15 * share:.3f}"]  # fmt: skip
                print(*row, sep="  ", flush=True)
                writer.writerow(row)
                file.flush()  # what is measured stays if this process is stopped
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())

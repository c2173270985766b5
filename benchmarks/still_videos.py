"""What run lengths save and change on real videos: python -m benchmarks.still_videos MODEL FOLDER.

python -m benchmarks.still_videos vivit_st_k400 weights.pth FOLDER --static 6 --out TABLE.csv

Clips are windows of each video, at equal distances. "tokens" is the mean share of the tokens of a
clip that is computed. The optimized model and the same with run lengths take turns on all clips of
a video; "faster" is the median over the rounds of the ratio of their CPU times. "scores" is the
largest change of a score, "changed" how many answers change. The last row is of all videos: of
their clips together, the median of "faster". With --random weights are random, for times alone.
"""

import csv
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch

from benchmarks.models import machine
from benchmarks.outputs import parse_with_results, with_suffixes
from benchmarks.versions import versions
from mmvidformer.apis import Recognizer
from mmvidformer.apis.answer_changes import add_change, gives_classes
from mmvidformer.apis.factory import PUBLISHED
from mmvidformer.apis.fast import make_fast
from mmvidformer.apis.speed import Variant, as_batches, mean_share, read_clips, with_random_weights
from mmvidformer.config import load_config
from mmvidformer.data.sources import list_sources
from mmvidformer.models.fast.run_rules import rule_of

COLUMNS = ("video", "clips", "tokens", "ms", "faster", "scores", "changed", "answers")


def measure(fast: Any, still: Any, samples: Sequence[dict], rounds: int) -> dict[str, Any]:
    """Measure a model with run lengths, against the one without, on clips.

    Args:
        fast: The optimized recognizer.
        still: The same with run lengths.
        samples: Clips, samples of a pipeline.
        rounds: Number of timed rounds.

    Returns:
        The figures by column, without the video. ``ms`` is the CPU time of a clip with run lengths.
    """
    batches = as_batches(samples)
    variants = [Variant("optimized", fast), Variant("run lengths", still)]
    change = variants[1].change
    for batch in batches:
        expected, answer = (variant.run(batch) for variant in variants)
        add_change(change, expected, answer, gives_classes(fast))
    for _ in range(rounds):
        for variant in variants:
            variant.time(batches)
    optimized, runs = (variant.cpu_seconds for variant in variants)
    ratios = [exact / few for exact, few in zip(optimized, runs, strict=True)]
    return dict(
        clips=len(batches),
        tokens=mean_share(still, batches),
        ms=1000 * median(runs),
        faster=median(ratios),
        scores=change.difference,
        changed=change.changed,
        answers=change.answers,
    )


def summarize(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of all videos."""
    clips = sum(row["clips"] for row in rows)
    return dict(
        video="all",
        clips=clips,
        tokens=sum(row["clips"] * row["tokens"] for row in rows) / clips,
        ms=mean(row["ms"] for row in rows),
        faster=median(row["faster"] for row in rows),
        scores=max(row["scores"] for row in rows),
        changed=sum(row["changed"] for row in rows),
        answers=sum(row["answers"] for row in rows),
    )


def cells_of(row: dict[str, Any]) -> list[str]:
    """Format a row."""
    formats = ("", "d", ".3f", ".1f", ".3f", ".2g", "d", "d")
    return [format(row[name], form) for name, form in zip(COLUMNS, formats, strict=True)]


def main(argv: Sequence[str] | None = None) -> None:
    """Print and write a row for each video."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("config", metavar="MODEL", help="config file, or name of a shipped config")
    parser.add_argument("inputs", nargs="+", metavar="FOLDER", help="its weights, and the folder")
    parser.add_argument("--random", action="store_true", help="random weights")
    parser.add_argument("--static", type=float, default=6.0, help="of 255 (default: %(default)s)")
    parser.add_argument("--clips", type=int, default=16, help="of a video (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="csv file")
    args = parse_with_results(parser, argv, with_suffixes(""))
    *checkpoints, folder = args.inputs
    if len(checkpoints) + args.random > 1:
        parser.error(f"at most a checkpoint before the folder, got {checkpoints}")
    torch.set_num_threads(args.threads)
    if args.random:
        recognizer = Recognizer(with_random_weights(load_config(args.config)), None, "cpu")
    else:
        recognizer = Recognizer(args.config, next(iter(checkpoints), PUBLISHED), "cpu")
    fast = make_fast(recognizer.model)
    still = make_fast(fast, static=args.static)
    print(f"{machine('cpu', args.threads)}; {versions()}")
    print(f"{recognizer}, up to {args.static:g} of 255: {rule_of(still.backbone)}")
    print("  ".join(COLUMNS))
    rows = []
    for source in list_sources([folder]):
        samples = read_clips(recognizer, source.name, args.clips)
        figures = measure(fast, still, samples, args.rounds)
        rows.append(dict(video=Path(source.name).name, **figures))
        print("  ".join(cells_of(rows[-1])), flush=True)
        if args.out:  # after each one, in case this process is stopped
            with open(args.out, "w", newline="", encoding="utf-8") as file:
                table = [cells_of(row) for row in [*rows, summarize(rows)]]
                csv.writer(file).writerows([COLUMNS, *table])
    print("  ".join(cells_of(summarize(rows))))


if __name__ == "__main__":
    main()

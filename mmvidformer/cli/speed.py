"""Measure how fast a model can be here: mmvidformer speed MODEL [CHECKPOINT] [VIDEO].

Times the model as it is, optimized, in bfloat16, in 8 bits, with still parts computed once, and
compiled, in turn, on clips of the video. Prints the time of a clip, the memory of the weights, and
how the answers differ from those of the model as it is; ``--json`` has the error of each layer in 8
bits, too. Without a video, pixels are noise: times are right, answers are not those of videos, and
nothing is still.
"""

import json
import math
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmvidformer.apis import Recognizer
from mmvidformer.apis.factory import PUBLISHED, find_model
from mmvidformer.apis.speed import as_batches, measure, read_clips, with_random_weights
from mmvidformer.data.sources import is_source
from mmvidformer.engine.arguments import (
    add_force_argument,
    check_outputs,
    positive,
)
from mmvidformer.engine.model_options import OverrideOptions
from mmvidformer.engine.options import add_options
from mmvidformer.errors import UserError
from mmvidformer.storage.atomic import write_atomically


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(
        usage="mmvidformer speed MODEL [CHECKPOINT] [VIDEO] [options]",
        description=__doc__,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", metavar="MODEL", help="config file, or name of a shipped config")
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="VIDEO",
        help="video whose windows are the clips; before it CHECKPOINT: file, published://NAME, "
        "hf://ORG/NAME or URL (default: the published one of the config)",
    )
    parser.add_argument("--device", help="such as cuda:1 (default: a GPU if there is one)")
    add_options(parser, OverrideOptions)
    parser.add_argument("--random", action="store_true", help="random weights, for times alone")
    parser.add_argument(
        "--clips", type=positive, default=8, help="number of them (default: 8)", metavar="N"
    )
    parser.add_argument(
        "--rounds", type=positive, default=5, help="default: %(default)s", metavar="N"
    )
    parser.add_argument(
        "--static",
        type=float,
        default=6.0,
        metavar="T",
        help="parts are still that change by at most T of 255 (default: %(default)s)",
    )
    parser.add_argument("--compile", action="store_true", help="compile, too; takes minutes")
    parser.add_argument("--json", type=Path, help="file for the figures", metavar="FILE")
    add_force_argument(parser)
    args = parser.parse_intermixed_args(argv)
    videos = [word for word in args.inputs if is_source(word)]
    checkpoints = [word for word in args.inputs if not is_source(word)]
    if len(videos) > 1 or len(checkpoints) + args.random > 1:
        parser.error(f"at most a checkpoint and a video, got {args.inputs}")
    if args.json:
        check_outputs(vars(args), [("--json", args.json)], "json")
    weights = next(iter(checkpoints), PUBLISHED)
    cfg, weights = find_model(args.config, weights, args.cfg_options)
    if args.random:
        recognizer = Recognizer(with_random_weights(cfg), None, args.device)
    else:
        recognizer = Recognizer(cfg, weights, args.device)
    batches = as_batches(read_clips(recognizer, next(iter(videos), None), args.clips))
    static = args.static if videos else None
    print(f"{recognizer}, {len(batches)} clips, {args.rounds} rounds", file=sys.stderr)
    variants = measure(recognizer.model, batches, args.rounds, static, args.compile)
    rows = [variant.row() for variant in variants]
    if not any("seconds" in row for row in rows):
        raise UserError(f"no variant can run: {rows[0]['note']}")
    print("\n".join(table(rows)))
    if args.json:
        with write_atomically(args.json) as part:
            part.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(f"written: {args.json}", file=sys.stderr)


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of a table of ``Variant.row``; "faster" than the first that could run."""
    timed = [row for row in rows if "seconds" in row]
    on_gpu = any(row.get("gpu_bytes") for row in timed)
    head = f"{'variant':<18}{'ms/clip':>9}{'faster':>8}{'weights':>10}{'changed':>10}{'scores':>9}"
    lines = [head + f"{'GPU':>10}" * on_gpu]
    for row in rows:
        if "seconds" not in row:
            lines.append(f"{row['name']:<18}cannot run: {row['note']}")
            continue
        cells = [
            f"{1000 * row['seconds']:9.1f}",
            f"{timed[0]['seconds'] / row['seconds']:7.2f}x",
            f"{row['weight_bytes'] / 2**20:7.1f}MiB",
            f"{row['changed']:>6}/{row['answers']:<3}" if row["answers"] else f"{'-':>10}",
            f"{math.inf if row['difference'] is None else row['difference']:9.2g}",
            *[f"{(row['gpu_bytes'] or 0) / 2**20:7.0f}MiB"] * on_gpu,
        ]
        lines.append(f"{row['name']:<18}{''.join(cells)}  {row['note']}".rstrip())
    return lines

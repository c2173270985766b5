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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mmvidformer.engine.arguments import check_outputs, positive
from mmvidformer.engine.model_options import CONFIG, DeviceOptions, ForceOptions, OverrideOptions
from mmvidformer.engine.options import argument, flag, option, parse_options
from mmvidformer.errors import UserError


@dataclass(frozen=True)
class TimingOptions(ForceOptions, DeviceOptions, OverrideOptions):
    """A model, the clips on which it is timed, and the file of the figures."""

    usage: ClassVar = "mmvidformer speed MODEL [CHECKPOINT] [VIDEO] [options]"
    config: str = argument(CONFIG, metavar="MODEL")
    inputs: Sequence[str] = argument(
        "video whose windows are the clips; before it CHECKPOINT: file, published://NAME, "
        "hf://ORG/NAME or URL (default: the published one of the config)",
        nargs="*",
        metavar="VIDEO",
    )
    random: bool = flag("random weights, for times alone")
    clips: int = option("number of them", 8, type=positive)
    rounds: int = option("how often each is timed", 5, type=positive)
    static: float = option(
        "parts are still that change by at most T of 255", 6.0, type=float, metavar="T"
    )
    compile: bool = flag("compile, too; takes minutes")
    json: Path | None = option("file for the figures", type=Path, metavar="FILE")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    options = parse_options(TimingOptions, argv, __doc__)
    if options.json:
        check_outputs(vars(options), [("--json", options.json)], "json")
    from mmvidformer.apis import Recognizer
    from mmvidformer.apis.factory import PUBLISHED, find_model
    from mmvidformer.apis.speed import as_batches, measure, read_clips, with_random_weights
    from mmvidformer.data.sources import is_source
    from mmvidformer.storage.atomic import write_atomically

    videos = [word for word in options.inputs if is_source(word)]
    checkpoints = [word for word in options.inputs if not is_source(word)]
    if len(videos) > 1 or len(checkpoints) + options.random > 1:
        raise UserError(f"at most a checkpoint and a video, got {options.inputs}")
    checkpoint = next(iter(checkpoints), PUBLISHED)
    cfg, weights = find_model(options.config, checkpoint, options.cfg_options)
    if options.random:
        recognizer = Recognizer(with_random_weights(cfg), None, options.device)
    else:
        recognizer = Recognizer(cfg, weights, options.device)
    batches = as_batches(read_clips(recognizer, next(iter(videos), None), options.clips))
    static = options.static if videos else None
    print(f"{recognizer}, {len(batches)} clips, {options.rounds} rounds", file=sys.stderr)
    variants = measure(recognizer.model, batches, options.rounds, static, options.compile)
    rows = [variant.row() for variant in variants]
    if not any("seconds" in row for row in rows):
        raise UserError(f"no variant can run: {rows[0]['note']}")
    print("\n".join(table(rows)))
    if options.json:
        with write_atomically(options.json) as part:
            part.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(f"written: {options.json}", file=sys.stderr)


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

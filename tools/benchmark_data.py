"""Measure what loading costs, part by part, and how many workers keep up with the model.

python tools/benchmark_data.py CONFIG [--split train] [--model] [--out work_dirs/benchmark_data]

prints a table, milliseconds of one sample in one process (medians), and with --out writes it as
data.csv and draws it as data.png. Against what the model takes (--model measures its step on this
device, --clips-per-second states it) it tells whether the loader or the model is the limit, and
suggests the number of workers. The rows of place "worker" run in the loader's processes, those of
place "main" between the model's steps.
"""

import csv
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from mmengine.config import DictAction
from mmengine.registry import init_default_scope
from rich.console import Console
from rich.table import Table

from mmvidformer.analysis.data_loading import (
    Part,
    Verdict,
    judge,
    measure_loading,
    model_rate,
)
from mmvidformer.config import load_config
from mmvidformer.engine.decoding import set_video_backend
from mmvidformer.visualization.plots import draw_parts

COLUMNS = ("part", "place", "ms", "share")


def rows_of(parts: Sequence[Part]) -> list[list[str]]:
    """Rows of the table; the share is that of the worker's whole time."""
    whole = sum(part.milliseconds for part in parts if part.place == "worker")
    rows = [
        [
            part.name,
            part.place,
            f"{part.milliseconds:.3f}",
            f"{part.milliseconds / whole:.1%}" if part.place == "worker" else "",
        ]
        for part in parts
    ]
    return [*rows, ["whole sample", "worker", f"{whole:.3f}", "100.0%"]]


def sentence(verdict: Verdict, parts: Sequence[Part]) -> str:
    """What the comparison comes to."""
    costliest = max(parts, key=lambda part: part.milliseconds * (part.place == "worker"))
    text = (
        f"{verdict.workers} workers give {verdict.loader:.1f} clips/s, the model takes "
        f"{verdict.model:.1f}: the {verdict.limit} is the limit. "
    )
    if verdict.suggested is None:
        return text + f"The cores do not suffice for more; the costliest part is {costliest.name}."
    return text + f"Suggested: {verdict.suggested} workers for each process of the model."


def save(folder: Path, rows: Sequence[Sequence[str]], parts: Sequence[Part], title: str) -> None:
    """Write data.csv and data.png."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "data.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    costs = {f"{part.name} ({part.place})": part.milliseconds for part in parts}
    draw_parts(costs, "ms a sample", title).savefig(folder / "data.png")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure as the command line says."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("config", help="a config file, or the name of a shipped config")
    parser.add_argument("--split", choices=["train", "val", "test"], default="train")
    parser.add_argument("--samples", type=int, default=32, help="samples to load (32)")
    parser.add_argument("--workers", type=int, help="worker processes; default: the config's")
    parser.add_argument("--cores", type=int, help="cores for them; default: this machine's")
    rate = parser.add_mutually_exclusive_group()
    rate.add_argument("--model", action="store_true", help="measure the model's step here")
    rate.add_argument("--clips-per-second", type=float, help="what the model takes elsewhere")
    parser.add_argument("--out", type=Path, help="folder for data.csv and data.png")
    parser.add_argument("--cfg-options", nargs="+", action=DictAction, help="as tools/train.py")
    args = parser.parse_args(argv)

    cfg = load_config(args.config, args.cfg_options)
    if cfg.get("video_backend"):
        set_video_backend(cfg, cfg.video_backend)
    init_default_scope(cfg.get("default_scope", "mmaction"))
    parts = measure_loading(cfg, args.split, args.samples)
    rows = rows_of(parts)
    table = Table(*COLUMNS, title=f"{args.config}, {args.split}")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    if args.out is not None:
        save(args.out, rows, parts, f"{args.config}, {args.split}")
    model = model_rate(cfg, args.split) if args.model else args.clips_per_second
    if model is not None:
        loader = cfg[f"{args.split}_dataloader"]
        workers = loader.get("num_workers", 0) if args.workers is None else args.workers
        print(sentence(judge(parts, model, workers, args.cores), parts))


if __name__ == "__main__":
    main()

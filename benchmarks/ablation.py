r"""Train and test variants of one config with the same budget, and tabulate their accuracy.

    python -m benchmarks.ablation configs/timesformer_motion.py --procs 2 --seeds 0 1 2 \
        --row "joint" model.backbone.attention=joint_space_time \
        --row "axial" model.backbone.attention=axial \
        --out work_dirs/ablation.md

A row may name a config of its own, as in ``--row "axial" timesformer/table1/axial_k400 a.b=1``.
Finished runs are not repeated, so the same command resumes after a stop. ``--out`` writes the table
as Markdown, and all numbers to a csv file of the same name.
"""

import argparse
import csv
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

from tqdm import tqdm

TOOLS = Path(__file__).resolve().parents[1] / "tools"


def parse_args() -> argparse.Namespace:
    """Parse the command line.

    Raises:
        SystemExit: If two rows have the same name or folder.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", help="config file, or the name of a shipped one")
    parser.add_argument(
        "--row", nargs="+", action="append", required=True, metavar=("NAME", "KEY=VALUE"),
        help="a variant: its name, its config if it is another one, and its overrides",
    )  # fmt: skip
    parser.add_argument(
        "--common",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="overrides of all rows; a row's own take precedence",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--procs", type=int, default=1, help="processes per run")
    parser.add_argument("--views", help="test views, CLIPSxCROPS; default: the config's")
    parser.add_argument(
        "--metric", nargs="+", default=["acc/top1"], help="metrics of the table, one row each"
    )
    parser.add_argument("--work-dir", type=Path, default=Path("work_dirs/ablation"))
    parser.add_argument("--out", type=Path, help="Markdown file of the table")
    args = parser.parse_args()
    folders = [folder_name(row[0]) for row in args.row]
    if len(set(folders)) < len(folders):
        parser.error(f"names of rows must differ, got {[row[0] for row in args.row]}")
    return args


def folder_name(row: str) -> str:
    """Return the name of a row's folder, with only letters, digits, ``_`` and ``-``."""
    return re.sub(r"[^\w-]+", "_", row)


def measure(args: argparse.Namespace, row: list[str], seed: int) -> dict[str, float]:
    """Train and test a row with one seed, unless that is done, and return its metrics.

    Raises:
        ValueError: If the row's folder has a run with other settings.
        subprocess.CalledProcessError: If training or testing fails.
    """
    name, own = row[0], row[1:]
    config = own.pop(0) if own and "=" not in own[0] else args.config
    changes = [*args.common, *own]  # the last one takes precedence
    folder = args.work_dir / folder_name(name) / f"seed_{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"config": config, "changes": changes, "procs": args.procs}
    record = folder / "settings.json"
    if record.is_file() and json.loads(record.read_text()) != settings:
        raise ValueError(
            f"{folder} has a run with {json.loads(record.read_text())}, not with {settings}; "
            "use another --work-dir or delete it"
        )
    record.write_text(json.dumps(settings))
    common = ["--work-dir", str(folder), *(["--cfg-options", *changes] if changes else [])]
    views = ["--views", args.views] if args.views else []
    pattern = f"test_{args.views or '*'}_*.json"
    results = sorted(folder.glob(pattern))
    if not results:
        run("dist_train.sh", config, args.procs, "--seed", seed, "--resume", *common,
            log=folder / "train.log")  # fmt: skip
        checkpoint = (folder / "last_checkpoint").read_text()
        run("dist_test.sh", config, checkpoint, args.procs, *views, *common,
            log=folder / "test.log")  # fmt: skip
        results = sorted(folder.glob(pattern))
    return json.loads(results[0].read_text())["metrics"]


def run(script: str, *arguments: object, log: Path) -> None:
    """Run a script in tools/ and write its output to a file."""
    with open(log, "w") as file:
        try:
            command = ["bash", str(TOOLS / script), *map(str, arguments)]
            subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=True)
        except subprocess.CalledProcessError:
            print(f"failed, see {log}", file=sys.stderr)
            raise


def table(args: argparse.Namespace, values: dict[str, list[float]]) -> str:
    """Return mean, spread (max - min) and the value of each seed in percent, as Markdown."""
    seeds = " | ".join(f"seed {seed}" for seed in args.seeds)
    lines = [f"| | mean | spread | {seeds} |", "|---" * (3 + len(args.seeds)) + "|"]
    for name, numbers in values.items():
        percent = [100 * number for number in numbers]
        each = " | ".join(f"{value:.1f}" for value in percent)
        spread = max(percent) - min(percent)
        lines.append(f"| {name} | {statistics.mean(percent):.1f} | {spread:.1f} | {each} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing and print the table."""
    args = parse_args()
    several = len(args.metric) > 1
    values: dict[str, list[float]] = {}
    jobs = [(row, seed) for seed in args.seeds for row in args.row]
    for row, seed in (bar := tqdm(jobs, unit="run", disable=None)):
        bar.set_postfix_str(f"{row[0]}, seed {seed}")
        metrics = measure(args, row, seed)
        for metric in args.metric:
            line = f"{row[0]}: {metric}" if several else row[0]
            values.setdefault(line, []).append(metrics[metric])
    text = table(args, values)
    print(text)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text + "\n")
        with open(args.out.with_suffix(".csv"), "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["row", *(f"seed {seed}" for seed in args.seeds)])
            writer.writerows([name, *numbers] for name, numbers in values.items())


if __name__ == "__main__":
    main()

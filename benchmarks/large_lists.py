"""Seconds and memory until the first batch of several processes, for a long annotation file.

    python -m benchmarks.large_lists --lines 1000000 --procs 8 --out work_dirs/large_lists.json

The paths of the list are hard links to a few small videos. A tiny model trains on the CPU through
tools/train.py. Memory is that of all processes together, dataloader workers included, as shares of
the pages they use (PSS); of Linux only.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from mmengine.hooks import Hook
from torch import distributed

from mmvidformer.registry import HOOKS

ROOT = Path(__file__).parents[1]
CHANGES = """
custom_imports = dict(imports=["benchmarks.large_lists"], allow_failed_imports=False)
custom_hooks = [dict(type="mmvidformer.ReportFirstBatch")]
train_dataloader["num_workers"] = {workers}
"""


def megabytes(pid: int, file: str, key: str) -> int:
    """Read a number of kB from a file of a process."""
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:")) >> 10


def children(pid: int) -> list[int]:
    """Return all processes below a process."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    direct = [int(child) for file in files for child in file.read_text().split()]
    return [*direct, *(one for child in direct for one in children(child))]


@HOOKS.register_module()
class ReportFirstBatch(Hook):
    """Reports seconds and memory at the first batch, and ends the run."""

    def before_train_iter(self, runner, batch_idx: int, data_batch: dict | None = None) -> None:
        """Print a line of JSON in each process."""
        seconds = time.time() - float(os.environ["STARTED"])
        distributed.barrier()
        me = os.getpid()
        report = dict(
            rank=int(os.environ["RANK"]),
            seconds=round(seconds, 1),
            cpu_seconds=round(time.process_time(), 1),
            rank_mb=megabytes(me, "smaps_rollup", "Pss"),
            workers_mb=sum(megabytes(pid, "smaps_rollup", "Pss") for pid in children(me)),
            rank_resident_mb=megabytes(me, "status", "VmRSS"),
            rank_peak_mb=megabytes(me, "status", "VmHWM"),
        )
        distributed.barrier()
        Path(runner.work_dir, f"{report['rank']}.json").write_text(json.dumps(report))
        distributed.barrier()
        os._exit(0)


def write_setup(folder: Path, lines: int, workers: int) -> Path:
    """Write the config, the videos and their list; return the path of the config."""
    from stress.tiny_run import write_config

    config, videos = write_config(folder, epochs=1, interval=10**9), folder / "videos"
    sources = sorted(videos.glob("*.mp4"))
    with (videos / "list.txt").open("w") as file:
        for number in range(lines):
            name = f"{number // 10000:04}/abcdefghijk_{number:06}_{number + 10:06}.mp4"
            path = videos / name
            path.parent.mkdir(exist_ok=True)
            os.link(sources[number % len(sources)], path)
            file.write(f"{name} {number % 2}\n")
    config.write_text(config.read_text() + CHANGES.format(workers=workers))
    return config


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000, help="length of the list")
    parser.add_argument("--procs", type=int, default=8, help="number of processes")
    parser.add_argument("--workers", type=int, default=1, help="dataloader workers per process")
    parser.add_argument("--out", type=Path, help=".json file to write")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="large_lists_") as name:
        folder = Path(name)
        config = write_setup(folder, args.lines, args.workers)
        command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc_per_node", str(args.procs), str(ROOT / "tools" / "train.py")]
        command += [str(config), "--launcher", "pytorch", "--work-dir", str(folder / "work")]
        env = {**os.environ, "STARTED": str(time.time()), "OMP_NUM_THREADS": "1"}
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT), env.get("PYTHONPATH", "")])
        subprocess.run(command, env=env, check=True)
        ranks = [json.loads(path.read_text()) for path in sorted((folder / "work").glob("?.json"))]
    figures = dict(
        lines=args.lines,
        procs=args.procs,
        seconds=max(rank["seconds"] for rank in ranks),
        cpu_seconds=round(sum(rank["cpu_seconds"] for rank in ranks), 1),
        all_mb=sum(rank["rank_mb"] + rank["workers_mb"] for rank in ranks),
        first_rank_peak_mb=ranks[0]["rank_peak_mb"],
        other_ranks_peak_mb=median(rank["rank_peak_mb"] for rank in ranks[1:] or ranks),
        ranks=ranks,
    )
    print(json.dumps(figures, indent=1))
    if args.out is not None:
        args.out.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Count the processes of a training run: python -m stress.count_processes --ranks 1 8 --workers 16.

Starts tools/train.py on tiny videos with each number of ranks, and counts the processes while it
runs: ranks, and below them dataloader workers and what starts them. Linux only.
"""

import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from stress.tiny_run import write_config

ROOT = Path(__file__).parents[1]


def descendants(root: int) -> Counter[int]:
    """Count the processes that a process started, by their distance from it."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if after_name[0] != "Z":
            parents[int(entry.parent.name)] = int(after_name[1])
    depths: Counter[int] = Counter()
    for pid in parents:
        depth = 0
        while pid and pid != root:
            pid, depth = parents.get(pid, 0), depth + 1
        if pid == root and depth:
            depths[depth] += 1
    return depths


def count(config: Path, ranks: int, workers: int, work_dir: str) -> Counter[int]:
    """Return the largest numbers of processes at each depth below the launcher during a run."""
    options = [f"train_dataloader.num_workers={workers}", "train_dataloader.prefetch_factor=1"]
    command = [sys.executable, ROOT / "tools" / "train.py", config, "--procs", ranks]
    command += ["--work-dir", work_dir, "--cfg-options", *options]
    most: Counter[int] = Counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with open(Path(work_dir).with_suffix(".log"), "w") as log:
        run = subprocess.Popen(
            list(map(str, command)), stdout=log, stderr=log, env=environment, start_new_session=True
        )
        try:
            while run.poll() is None:
                most |= descendants(run.pid)
                time.sleep(0.2)
        finally:
            if run.poll() is None:
                run.terminate()
    if run.returncode:
        raise RuntimeError(f"the run failed:\n{Path(log.name).read_text()[-2000:]}")
    return most


def main(argv: Sequence[str] | None = None) -> None:
    """Count and print."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="numbers of ranks")
    parser.add_argument("--workers", type=int, default=16, help="dataloader workers of a rank")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        config = write_config(Path(name), epochs=1, interval=1000)
        # Each worker reads at least one clip.
        listed = (Path(name) / "videos" / "list.txt").read_text()
        for ranks in args.ranks:
            many = listed * (2 * ranks * args.workers // len(listed.splitlines()) + 1)
            (Path(name) / "videos" / "list.txt").write_text(many)
            processes = count(config, ranks, args.workers, f"{name}/{ranks}")
            print(
                f"{ranks} ranks, {args.workers} workers each: {processes[1]} ranks + "
                f"{processes.total() - processes[1]} below them = {processes.total()}",
                flush=True,
            )


if __name__ == "__main__":
    main()

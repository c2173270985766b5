"""Kill ``mmvidformer label`` again and again. The rows must be those of an undisturbed run.

    python -m stress.kill_labels --kills 20 --out kills.csv

SIGKILL comes at random moments: half of the times up to the length of an undisturbed run, which may
be while the model is loaded, and half when a random part has just been written. Then the same
command is run again, and so on; a run that ends is compared with the undisturbed one, and the next
begins in an empty folder. With ``--workers`` dataloader workers read, with ``--ray`` two actors of
Ray answer. Runs without Ray are forked from a process that has imported all modules; this needs
Linux or macOS. Exits with status 1 if rows are lost, written twice or differ.
"""

import argparse
import csv
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pyarrow import parquet

from lab.textures import write_videos
from mmvidformer.__main__ import main as run_command
from stress.tiny_run import fork


def start(command: Sequence[str], use_ray: bool, log: Path) -> int:
    """Start a run in a process of its own; returns the number of the process."""
    if use_ray:
        # Others may hold the memory of the machine, for which Ray would end its actors, or its
        # cores, to which Ray would leave them.
        os.environ |= {"RAY_memory_monitor_refresh_ms": "0", "RAY_worker_niceness": "0"}
        options = dict(start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        words = [sys.executable, "-W", "ignore", "-m", "mmvidformer", "label", *command]
        return subprocess.Popen(words, **options).pid
    return fork(lambda: sys.exit(run_command(["label", *command])), log)


def state_of(out: Path) -> tuple[list[dict], dict[str, str]]:
    """Return the rows and the failures of a folder."""
    failed: dict[str, str] = {}
    rows: list[dict] = []
    for file in sorted(out.glob("part-*.parquet")):
        table = parquet.read_table(file)
        rows += table.to_pylist()
        failed |= json.loads(table.schema.metadata[b"mmvidformer"])["failed"]
    # Interruptions change where parts end, and so their order.
    rows.sort(key=lambda row: (row["video"], row["start"] or 0.0))
    return rows, failed


def parts_in(out: Path) -> int:
    """Return the number of parts that are written."""
    return len([*out.glob("part-*.parquet")])


def run_with_kills(
    begin: Callable[[], int],
    out: Path,
    kills: int,
    seconds: float,
    parts: int,
    rng: random.Random,
) -> list[dict]:
    """Run until the end, killed at most ``kills`` times; returns a record of each kill.

    Args:
        begin: Starts a run, and returns its process.
        out: Folder of the parts.
        kills: Number of kills.
        seconds: Length of an undisturbed run.
        parts: Number of its parts.
        rng: Draws the moments.
    """
    records = []
    while True:
        pid, began, known = begin(), time.monotonic(), parts_in(out)
        moment, wanted = math.inf, math.inf  # seconds, and parts, after which it is killed
        if len(records) < kills and known < parts and rng.random() < 0.5:
            wanted = rng.randint(known + 1, parts)
        elif len(records) < kills:
            moment = rng.uniform(0, seconds)
        while time.monotonic() - began < moment and parts_in(out) < wanted:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return records
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        rows, _ = state_of(out)
        names = {row["video"] for row in rows}
        after = round(time.monotonic() - began, 2)
        record = dict(second=after, rows=len(rows), videos=len(names))
        records.append(record)
        print(record, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", nargs="+", default=["camera_motion"], help="and checkpoint")
    parser.add_argument("--videos", type=int, default=100)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--kills-per-run", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--ray", action="store_true", help="two actors of Ray")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="csv file with a row for each kill")
    args = parser.parse_args(argv)
    rng, records, wrong = random.Random(args.seed), [], 0
    with tempfile.TemporaryDirectory() as root:
        videos, out = Path(root, "videos"), Path(root, "labels")
        write_videos(videos, args.videos)
        command = [*args.model, str(videos), "--part", "8", "--out", str(out)]
        command += ["--workers", str(args.workers)]
        if args.ray:
            command += ["--ray", "local", "--procs", "2"]

        def begin() -> int:
            return start(command, args.ray, Path(root, "log"))

        began = time.monotonic()
        run_with_kills(begin, out, 0, 0.0, 0, rng)
        seconds, parts = time.monotonic() - began, parts_in(out)
        expected = state_of(out)
        readable = args.videos - args.videos // 10
        print(f"undisturbed: {len(expected[0])} rows in {seconds:.1f} s", flush=True)
        assert len(expected[0]) == readable and len(expected[1]) == args.videos // 10
        while len(records) < args.kills:
            shutil.rmtree(out)
            kills = min(args.kills_per_run, args.kills - len(records))
            records += run_with_kills(begin, out, kills, seconds, parts, rng)
            is_equal = state_of(out) == expected
            wrong += not is_equal
            print("equal" if is_equal else "DIFFERENT", flush=True)
    if args.out:
        with args.out.open("w", newline="") as file:
            table = csv.DictWriter(file, ["second", "rows", "videos"])
            table.writeheader()
            table.writerows(records)
    print(f"{len(records)} kills, {wrong} runs with other rows")
    return 1 if wrong or not records else 0


if __name__ == "__main__":
    sys.exit(main())

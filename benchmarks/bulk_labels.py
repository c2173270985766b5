"""Clips a second of ``mmvidformer label`` with camera_motion, beside a loop over the Python call.

    OMP_NUM_THREADS=1 python -m benchmarks.bulk_labels --videos 1000

The start is not counted: figures are the difference of a run over all videos and one over 100. CPU
milliseconds are those of all processes, with Ray's own. On a busy machine only these can be
compared. Needs Linux.
"""

import csv
import os
import subprocess
import sys
import tempfile
import time
import uuid
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmvidformer.apis import Recognizer
from stress.kill_labels import write_videos

PART, FEW = 40, 100
WAYS = {
    "label, 1 process": ["--workers", "0"],
    "label, 2 processes (1 reads)": ["--workers", "1"],
    "label, 3 processes (2 read)": ["--workers", "2"],
    "label --ray local, 1 actor": ["--ray", "local", "--procs", "1"],
    "label --ray local, 2 actors": ["--ray", "local", "--procs", "2"],
}


MARK = "BULK_LABELS_RUN"  # variable of the environment of all processes of a run
TICKS = os.sysconf("SC_CLK_TCK")  # a second


def cpu_seconds(mark: str) -> dict[str, float]:
    """Return the CPU time of each living process with a mark; Ray's are no children of ours."""
    seconds = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                seconds[folder.name] = (int(fields[11]) + int(fields[12])) / TICKS
        except OSError:  # it has ended, or is another user's
            continue
    return seconds


def loop_cost(videos: Sequence[Path]) -> tuple[float, float]:
    """Return the seconds of a loop over ``Recognizer``, and its CPU seconds."""
    recognizer = Recognizer("camera_motion")
    recognizer(videos[0])
    wall, cpu = time.perf_counter(), time.process_time()
    for video in videos:
        recognizer(video)
    return time.perf_counter() - wall, time.process_time() - cpu


def label_cost(folder: Path, out: Path, options: Sequence[str]) -> tuple[float, float]:
    """Return the seconds of the command, and its CPU seconds."""
    mark, begin = uuid.uuid4().hex, time.perf_counter()
    words = ["label", "camera_motion", str(folder), "--out", str(out), "--part", str(PART)]
    command = [sys.executable, "-W", "ignore", "-m", "mmvidformer", *words, *options]
    run = subprocess.Popen(
        command,
        env={**os.environ, MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    latest: dict[str, float] = {}
    while run.poll() is None:
        latest |= cpu_seconds(mark)
        time.sleep(0.2)
    if run.returncode:
        raise subprocess.CalledProcessError(run.returncode, command)
    return time.perf_counter() - begin, sum(latest.values())


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each way."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--videos", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args(argv)
    table = csv.writer(sys.stdout)
    table.writerow(["way", "clips a second", "CPU ms a clip", "load"])
    with tempfile.TemporaryDirectory() as root:
        few, many = Path(root, "few"), Path(root, "many")
        write_videos(few, FEW, bad=False)
        write_videos(many, args.videos, bad=False)
        count = args.videos - FEW
        for repeat in range(args.repeats):
            wall, cpu = loop_cost(sorted(many.iterdir())[FEW:])
            write_row(table, "loop over Recognizer", count / wall, 1000 * cpu / count)
            for way, options in WAYS.items():
                outs = [Path(root, f"{way} {repeat} {name}") for name in ("few", "many")]
                start_wall, start_cpu = label_cost(few, outs[0], options)
                wall, cpu = label_cost(many, outs[1], options)
                rate = count / (wall - start_wall)
                write_row(table, way, rate, 1000 * (cpu - start_cpu) / count)


def write_row(table: Any, way: str, rate: float, milliseconds: float) -> None:
    """Write what a way costs, and the load of the machine."""
    table.writerow([way, f"{rate:.1f}", f"{milliseconds:.1f}", f"{os.getloadavg()[0]:.1f}"])
    sys.stdout.flush()


if __name__ == "__main__":
    main()

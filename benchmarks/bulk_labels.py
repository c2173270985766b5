"""Seconds of ``mmvidformer label`` with camera_motion, beside a loop over the Python call.

    OMP_NUM_THREADS=1 python -m benchmarks.bulk_labels --videos 1000

Each way runs in processes of its own, over 100 videos and over all; the first run shows what the
start costs. CPU seconds are those of all processes, with Ray's own. On a busy machine only these
can be compared. Needs Linux.
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

from lab.textures import write_videos

PART, FEW = 40, 100
LOOP = """
import sys
from pathlib import Path
from mmvidformer.apis import Recognizer
recognizer = Recognizer("camera_motion")
for video in sorted(Path(sys.argv[1]).iterdir()):
    recognizer(video)
"""
LABEL = ["-m", "mmvidformer", "label", "camera_motion"]
WAYS: dict[str, list[str] | None] = {  # options of the command; None: the loop
    "loop over Recognizer": None,
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


def cost(folder: Path, out: Path, options: Sequence[str] | None) -> tuple[float, float]:
    """Return the seconds of a run, and its CPU seconds."""
    mark, begin = uuid.uuid4().hex, time.perf_counter()
    words = ["-c", LOOP, str(folder)]
    if options is not None:
        words = [*LABEL, str(folder), "--out", str(out), "--part", str(PART), *options]
    command = [sys.executable, "-W", "ignore", *words]
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
    """Print a row for each run."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--videos", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args(argv)
    table = csv.writer(sys.stdout)
    table.writerow(["way", "clips", "seconds", "CPU seconds", "load"])
    with tempfile.TemporaryDirectory() as root:
        folders = {count: Path(root, f"videos_{count}") for count in (FEW, args.videos)}
        for count, folder in folders.items():
            write_videos(folder, count, bad=False)
        for repeat in range(args.repeats):
            for way, options in WAYS.items():
                for count, folder in folders.items():
                    out = Path(root, f"{way} {repeat} {count}")
                    wall, cpu = cost(folder, out, options)
                    load = os.getloadavg()[0]
                    table.writerow([way, count, f"{wall:.1f}", f"{cpu:.1f}", f"{load:.1f}"])
                    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Clips a second of ``mmvidformer label`` with camera_motion, beside a loop over the Python call.

    OMP_NUM_THREADS=1 python -m benchmarks.bulk_labels --videos 1000

The start is not counted: a rate is that of the videos after the first part. CPU seconds are those
of all processes for all videos, with the start.
"""

import csv
import resource
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.apis import Recognizer
from stress.kill_labels import write_videos

PART = 40
WAYS = {
    "label, 1 process": ["--workers", "0"],
    "label, 2 processes (1 reads)": ["--workers", "1"],
    "label, 3 processes (2 read)": ["--workers", "2"],
    "label --ray local, 1 actor": ["--ray", "local", "--procs", "1"],
    "label --ray local, 2 actors": ["--ray", "local", "--procs", "2"],
}


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, who))


def loop_rate(videos: Sequence[Path]) -> float:
    """Return the videos a second of a loop over ``Recognizer``."""
    recognizer = Recognizer("camera_motion")
    for video in videos[:PART]:
        recognizer(video)
    begin = time.perf_counter()
    for video in videos[PART:]:
        recognizer(video)
    return (len(videos) - PART) / (time.perf_counter() - begin)


def label_rate(folder: Path, count: int, out: Path, options: Sequence[str]) -> float:
    """Return the videos a second of the command, by the times of its files."""
    words = ["label", "camera_motion", str(folder), "--out", str(out), "--part", str(PART)]
    command = [sys.executable, "-W", "ignore", "-m", "mmvidformer", *words, *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    times = sorted(file.stat().st_mtime for file in out.glob("part-*.parquet"))
    return (count - PART) / (times[-1] - times[0])


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each way."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--videos", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args(argv)
    table = csv.writer(sys.stdout)
    table.writerow(["way", "clips a second", "CPU seconds"])
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "videos")
        write_videos(folder, args.videos, bad=False)
        for repeat in range(args.repeats):
            begin = cpu_seconds()
            rate = loop_rate(sorted(folder.iterdir()))
            table.writerow(["loop over Recognizer", f"{rate:.1f}", f"{cpu_seconds() - begin:.0f}"])
            for way, options in WAYS.items():
                sys.stdout.flush()
                begin, out = cpu_seconds(), Path(root, f"{way} {repeat}")
                rate = label_rate(folder, args.videos, out, options)
                table.writerow([way, f"{rate:.1f}", f"{cpu_seconds() - begin:.0f}"])


if __name__ == "__main__":
    main()

"""Time and memory of a long stream: python -m benchmarks.stream CONFIG --out stream.csv.

Writes a video of a moving disc, streams it through the config's model with initial weights, as
mmvidformer stream does, and measures for each minute of the video the time per step (wall clock,
and processor time, which other programs on the machine affect less) and the memory of the process.
A picture is drawn beside the csv file.
"""

import csv
import resource
import tempfile
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import torch
from tqdm import tqdm

from benchmarks.outputs import parse_with_results
from benchmarks.plots import draw_minutes
from mmvidformer.apis import Capture, Recognizer
from mmvidformer.config import load_config
from mmvidformer.engine.model_options import ConfigOptions, DeviceOptions
from mmvidformer.engine.options import add_options
from mmvidformer.video.writer import VideoOutput

COLUMNS = ("minute", "steps", "wall_ms", "cpu_ms", "rss_mib", "peak_mib")


def write_video(path: Path, minutes: float, fps: float, size: tuple[int, int]) -> None:
    """Write a disc that moves in circles on noise."""
    height, width = size
    rng = np.random.default_rng(0)
    background = rng.integers(60, 120, (height, width, 3), dtype=np.uint8)
    with VideoOutput(path, fps) as output:
        for i in range(round(60 * minutes * fps)):
            page = background.copy()
            angle = 2 * np.pi * i / (4 * fps)
            center = (width * (0.5 + 0.3 * np.cos(angle)), height * (0.5 + 0.3 * np.sin(angle)))
            cv2.circle(page, tuple(map(round, center)), height // 8, (250, 80, 40), -1)
            output.add(page)


def resident() -> float:
    """Memory of the process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def measure(recognizer: Recognizer, video: Path) -> Iterator[dict[str, float]]:
    """Stream a file, and return a row of ``COLUMNS`` after each of its minutes."""
    with Capture(video) as source:  # warm up
        list(islice(recognizer.frame_by_frame(source), 20))
    with Capture(video) as source, tqdm(total=source.total, unit="frame", disable=None) as bar:
        minute, steps, start = 1, 0, (time.perf_counter(), time.process_time())
        for frame in recognizer.frame_by_frame(source):
            if frame.seconds >= 60 * minute:
                yield row(minute, steps, start)
                minute, steps, start = minute + 1, 0, (time.perf_counter(), time.process_time())
            steps += 1
            bar.update(frame.number + 1 - bar.n)
        yield row(minute, steps, start)


def row(minute: int, steps: int, start: tuple[float, float]) -> dict[str, float]:
    """Row of ``COLUMNS``; ``start`` is the wall and processor time at which the minute began."""
    now = time.perf_counter(), time.process_time()
    wall_ms, cpu_ms = (1000 * (b - a) / steps for a, b in zip(start, now, strict=True))
    held = resident()
    # The system updates its record of the peak only now and then.
    peak = max(held, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return dict(zip(COLUMNS, (minute, steps, wall_ms, cpu_ms, held, peak), strict=True))


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Parse the command line."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_options(parser, ConfigOptions)
    add_options(parser, DeviceOptions)
    parser.add_argument("--out", type=Path, required=True, help="table (.csv)")
    parser.add_argument("--minutes", type=float, default=10, help="of the video (default: 10)")
    parser.add_argument("--fps", type=float, default=30, help="of the video (default: 30)")
    parser.add_argument(
        "--size",
        type=int,
        nargs=2,
        default=[256, 456],
        metavar=("H", "W"),
        help="of the video (default: 256 456)",
    )
    return parse_with_results(parser, argv, lambda args: [args.out, args.out.with_suffix(".png")])


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    args = parse_args(argv)
    cfg = load_config(args.config, args.cfg_options)
    recognizer = Recognizer(cfg, None, args.device)
    with tempfile.TemporaryDirectory() as folder:
        video = Path(folder) / "disc.mp4"
        write_video(video, args.minutes, args.fps, tuple(args.size))
        print("  ".join(f"{name:>8}" for name in COLUMNS))
        rows = []
        for of_minute in measure(recognizer, video):
            rows.append(of_minute)
            print("  ".join(f"{of_minute[name]:8.1f}" for name in COLUMNS), flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with open(args.out, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for of_minute in rows:
            writer.writerow([f"{of_minute[name]:.6g}" for name in COLUMNS])
    column = {name: [of_minute[name] for of_minute in rows] for name in COLUMNS}
    panels = {
        "ms per step": {"wall clock": column["wall_ms"], "processor": column["cpu_ms"]},
        "memory of the process in MiB": {"now": column["rss_mib"], "peak": column["peak_mib"]},
    }
    picture = args.out.with_suffix(".png")
    draw_minutes(panels).savefig(picture)
    for name in COLUMNS[2:]:
        ratio = column[name][-1] / column[name][0]
        print(f"{name}, last minute over first: {ratio:.3f}")
    print(f"{torch.get_num_threads()} threads; {args.out}, {picture}")


if __name__ == "__main__":
    main()

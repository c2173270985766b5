"""Time and memory of a long stream: python -m benchmarks.stream CONFIG --out stream.csv.

Writes a video of a moving disc, streams it through the config's model with random weights, as
tools/demo_stream.py does, and tells for each minute of the video the time a step (on the clock, and
of the processor, which other programs on the machine change less) and the memory of the process.
Beside the csv file lies a picture.
"""

import csv
import resource
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from mmengine.config import Config, DictAction
from mmengine.registry import DefaultScope
from torch import nn
from tqdm import tqdm

from benchmarks.plots import draw_minutes
from mmvidformer.apis import Capture, build_frame_pipeline, check_streams, stream_predictions
from mmvidformer.config import load_config
from mmvidformer.registry import MODELS
from mmvidformer.visualization import Film

COLUMNS = ("minute", "steps", "wall_ms", "cpu_ms", "rss_mib", "peak_mib")


def write_video(path: Path, minutes: float, fps: float, size: tuple[int, int]) -> None:
    """Write a disc that goes round on noise, frame by frame."""
    height, width = size
    rng = np.random.default_rng(0)
    background = rng.integers(60, 120, (height, width, 3), dtype=np.uint8)
    with Film(path, fps, (width, height)) as film:
        for i in range(round(60 * minutes * fps)):
            page = background.copy()
            angle = 2 * np.pi * i / (4 * fps)
            centre = (width * (0.5 + 0.3 * np.cos(angle)), height * (0.5 + 0.3 * np.sin(angle)))
            cv2.circle(page, tuple(map(round, centre)), height // 8, (250, 80, 40), -1)
            film.add(page)


def resident() -> float:
    """Memory of the process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def measure(model: nn.Module, cfg: Config, video: Path) -> Iterator[dict[str, float]]:
    """Stream a file, and give a row of ``COLUMNS`` after each of its minutes."""
    pipeline = build_frame_pipeline(cfg)
    with Capture(video) as source:  # what is built at the first steps is no part of a minute
        for count, _ in enumerate(stream_predictions(model, pipeline.read(source))):
            if count == 20:
                break
    with Capture(video) as source, tqdm(total=source.total, unit="frame", disable=None) as bar:
        minute, steps, start = 1, 0, (time.perf_counter(), time.process_time())
        for prediction in stream_predictions(model, pipeline.read(source)):
            if prediction.frame.seconds >= 60 * minute:
                yield row(minute, steps, start)
                minute, steps, start = minute + 1, 0, (time.perf_counter(), time.process_time())
            steps += 1
            bar.update(prediction.frame.number + 1 - bar.n)
        yield row(minute, steps, start)


def row(minute: int, steps: int, start: tuple[float, float]) -> dict[str, float]:
    """Row of ``COLUMNS``; ``start`` is when the minute began, on the clock and of the processor."""
    now = time.perf_counter(), time.process_time()
    each = (1000 * (b - a) / steps for a, b in zip(start, now, strict=True))
    held = resident()
    # The system brings its record of the peak up to date only now and then.
    peak = max(held, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return dict(zip(COLUMNS, (minute, steps, *each, held, peak), strict=True))


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("config", help="a config file, or the name of a shipped config")
    parser.add_argument("--out", type=Path, required=True, help="the table (.csv)")
    parser.add_argument("--minutes", type=float, default=10, help="of the video (default: 10)")
    parser.add_argument("--fps", type=float, default=30, help="of the video (default: 30)")
    parser.add_argument(
        "--size", type=int, nargs=2, default=[256, 456], metavar=("H", "W"), help="of the video"
    )
    parser.add_argument("--device", default="cpu", help="such as cuda (default: cpu)")
    parser.add_argument(
        "--cfg-options", nargs="+", action=DictAction, help="settings to change, as key=value"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    args = parse_args(argv)
    cfg = load_config(args.config, args.cfg_options)
    check_streams(cfg)
    with DefaultScope.overwrite_default_scope(cfg.get("default_scope", "mmaction")):
        model = MODELS.build(cfg.model).to(args.device).eval()
    with tempfile.TemporaryDirectory() as folder:
        video = Path(folder) / "disc.mp4"
        write_video(video, args.minutes, args.fps, tuple(args.size))
        print("  ".join(f"{name:>8}" for name in COLUMNS))
        rows = []
        for found in measure(model, cfg, video):
            rows.append(found)
            print("  ".join(f"{found[name]:8.1f}" for name in COLUMNS), flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with open(args.out, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows([f"{found[name]:.6g}" for name in COLUMNS] for found in rows)
    column = {name: [found[name] for found in rows] for name in COLUMNS}
    panels = {
        "ms a step": {"clock": column["wall_ms"], "processor": column["cpu_ms"]},
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

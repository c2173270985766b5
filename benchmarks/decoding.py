"""CPU time to decode training clips, from videos as they are and prepared.

    python -m benchmarks.decoding demo.mp4 test.mp4 --out work_dirs/decoding.csv

Prepares each video as mmvidformer data prepare does, and decodes random clips on one thread in
alternating rounds. Prints the median milliseconds per clip for each library that is installed, and
those of a worker that hands the file on for another device (--decode-on-device).
"""

import os
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

import cv2
import numpy as np
import torch
from mmengine.dataset import Compose
from mmengine.registry import init_default_scope

from benchmarks.outputs import parse_with_results, with_suffixes
from mmvidformer.data.transforms.decode import VideoInit
from mmvidformer.engine.tables import print_table
from mmvidformer.video.choices import BACKENDS
from mmvidformer.video.encode import encode_video

# Recipe: frames of a clip, and frames between them.
CLIPS = {"ViViT 32x2": (32, 2), "TimeSformer 8x32": (8, 32)}
HANDED_ON = "handed on"  # in place of the name of a library


def milliseconds(path: str, backend: str, clip_len: int, interval: int, count: int) -> float:
    """Decode clips at the same random places for each backend; return the CPU time of one."""
    decoding = dict(type="mmvidformer.VideoDecode")
    if backend == HANDED_ON:
        backend, decoding = "pyav", dict(type="mmvidformer.DecodeLater")
    sampling = dict(type="SampleFrames", clip_len=clip_len, frame_interval=interval, num_clips=1)
    opening = dict(type="mmvidformer.VideoInit", backend=backend)
    decode = Compose([opening, sampling, decoding])
    np.random.seed(0)
    start = time.process_time()
    for _ in range(count):
        decode(dict(filename=path, start_index=0))
    return (time.process_time() - start) / count * 1000


def installed(path: str) -> list[str]:
    """Return the backends that open a video, and ``HANDED_ON``."""
    backends = []
    for backend in BACKENDS:
        with suppress(ImportError):
            VideoInit(backend)(dict(filename=path))
            backends.append(backend)
    return [*backends, HANDED_ON]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", help="video files")
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (default: 5)")
    parser.add_argument("--clips", type=int, default=5, help="clips per round (default: 5)")
    parser.add_argument("--out", type=Path, help=".csv file to write")
    args = parse_with_results(parser, argv, with_suffixes(""))
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    init_default_scope("mmaction")
    backends = installed(args.videos[0])
    with tempfile.TemporaryDirectory(prefix="decoding_") as name:
        files, sizes = {}, {}
        for video in args.videos:
            target = os.path.join(name, f"{Path(video).name}.mp4")
            encode_video(video, target)
            for state, path in (("as it is", video), ("prepared", target)):
                files[Path(video).name, state] = path
                sizes[Path(video).name, state] = os.path.getsize(path) // 1000
        times: dict[tuple, list[float]] = {}
        for _ in range(args.rounds + 1):  # the first is a warmup
            for file, path in files.items():
                for recipe, clip in CLIPS.items():
                    for backend in backends:
                        spent = milliseconds(path, backend, *clip, args.clips)
                        times.setdefault((*file, recipe, backend), []).append(spent)
    columns = ["video", "file", "kB", "clip", *backends]
    rows = []
    for file in files:
        for recipe in CLIPS:
            rounds = [times[(*file, recipe, backend)][1:] for backend in backends]
            medians = [f"{median(of_backend):.0f}" for of_backend in rounds]
            rows.append([*file, str(sizes[file]), recipe, *medians])
    print_table(columns, rows, "CPU milliseconds per clip, one thread", args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""What a sample costs from files, shards, HTTP and S3, and what a list of a million lines costs.

    python -m benchmarks.shards clips FOLDER [--count 20000]   # writes clips, and clips/train.txt
    mmvidformer data shard FOLDER/train.txt --out FOLDER/shards
    python -m benchmarks.shards speed FOLDER [--samples 300]
    python -m benchmarks.shards start FOLDER [--lines 1000000] [--workers 4]

Needs moto, flask, flask_cors, s3fs and webdataset for ``speed``.
"""

import os
import shutil
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import av
import numpy as np
import torch
from mmaction.datasets import VideoDataset
from mmengine.registry import DefaultScope
from torch.utils.data import DataLoader

from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.data.listed_videos import ListedVideoDataset
from mmvidformer.data.shards.dataset import ShardedVideoDataset
from mmvidformer.data.workers import init_worker
from mmvidformer.video.video import Video

KINDS = 100  # different clips
SAMPLING = [dict(type="SampleFrames", clip_len=8, frame_interval=4)]
PACK = [
    dict(type="Resize", scale=(-1, 84)),
    dict(type="CenterCrop", crop_size=84),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
OURS = [dict(type="mmvidformer.VideoInit"), *SAMPLING, dict(type="mmvidformer.VideoDecode"), *PACK]
MMACTION2 = [dict(type="DecordInit"), *SAMPLING, dict(type="DecordDecode"), *PACK]


def write_clips(folder: Path, count: int) -> None:
    """Write H.264 clips of 50 frames of 112 x 84 pixels, about 25 kB each."""
    noise = np.random.default_rng(0)
    for number in range(count):
        path = folder / f"class_{number % KINDS:02d}" / f"{number:06d}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        if number >= KINDS:
            first = number % KINDS
            shutil.copyfile(folder / f"class_{first:02d}" / f"{first:06d}.mp4", path)
            continue
        pixels = noise.integers(0, 255, (12, 16, 3), dtype=np.uint8).repeat(7, 0).repeat(7, 1)
        with av.open(str(path), "w", options={"movflags": "faststart"}) as file:
            options = {"crf": "28", "preset": "ultrafast", "g": "16"}
            stream = file.add_stream("libx264", rate=25, options=options)
            stream.width, stream.height, stream.pix_fmt = 112, 84, "yuv420p"
            for shift in range(50):
                moved = np.roll(pixels, (shift * (number % 5), shift * (number % 3)), (0, 1))
                file.mux(stream.encode(av.VideoFrame.from_ndarray(moved, "rgb24")))
            file.mux(stream.encode())
    write_list(folder / "train.txt", count, count)


def write_list(file: Path, lines: int, clips: int) -> None:
    """Write a list that names each clip once, or again and again."""
    with file.open("w") as out:
        for line in range(lines):
            label, number = line % clips % KINDS, line % clips
            out.write(f"class_{label:02d}/{number:06d}.mp4 {label}\n")


def measure_speed(folder: Path, count: int) -> None:
    """Print wall and CPU milliseconds a sample, and bytes, of each source."""
    total = sum(1 for _ in (folder / "train.txt").open())
    numbers = np.random.default_rng(0).permutation(total)[:count].tolist()
    prefix, file = dict(video=str(folder)), str(folder / "train.txt")
    shards = folder / "shards" / "train"
    stored = ShardedVideoDataset(str(shards), OURS)
    report("files, MMAction2", VideoDataset(file, MMACTION2, prefix).__getitem__, numbers)
    report("files", ListedVideoDataset(file, OURS, prefix).__getitem__, numbers)
    report("shards", stored.__getitem__, numbers)
    import webdataset

    tars = [str(tar) for tar in sorted(shards.glob("*.tar"))]
    samples = iter(webdataset.WebDataset(tars, shardshuffle=len(tars)).shuffle(1000))
    report("shards, WebDataset", lambda _: decode(next(samples), stored), numbers)
    os.environ["MMVIDFORMER_CACHE_GB"] = "0"
    with server(shards) as (url, address), TemporaryDirectory() as cache:
        os.environ["MMVIDFORMER_CACHE"] = cache
        for name, where in (("shards, HTTP", url), ("shards, S3", address)):
            report(name, ShardedVideoDataset(where, OURS).__getitem__, numbers)
        os.environ["MMVIDFORMER_CACHE_GB"] = "10"
        cached = ShardedVideoDataset(address, OURS)
        for number in numbers:
            cached.index.read(number)
        report("shards, S3, in the cache", cached.__getitem__, numbers)


def decode(sample: dict, dataset: ShardedVideoDataset) -> object:
    """Decode a sample of WebDataset as users do, by bytes, with the same transforms."""
    video = Video.open(sample["mp4"])
    results = dict(
        filename=sample["__key__"],
        label=int(sample["cls"]),
        video_reader=video,
        total_frames=len(video),
        avg_fps=video.get_avg_fps(),
        start_index=0,
        modality="RGB",
    )
    for transform in dataset.pipeline.transforms[1:]:
        results = transform(results)
    return results


def report(name: str, read: Callable[[int], object], numbers: list[int]) -> None:
    """Print what a sample costs."""
    read(numbers[0])
    wall, cpu, before = time.time(), time.process_time(), bytes_read()
    for number in numbers:
        read(number)
    count = len(numbers)
    wall, cpu = time.time() - wall, time.process_time() - cpu
    size = (bytes_read() - before) / count
    costs = f"{1000 * cpu / count:.2f} ms CPU, {1000 * wall / count:.2f} ms wall"
    print(
        f"{name}: {costs}, {count / cpu:.0f} samples a CPU second, {size:.0f} bytes of files read"
    )


def bytes_read() -> int:
    """Return the bytes that this process has read from files, but not from sockets."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(lines[0].partition(": ")[2])


@contextmanager
def server(shards: Path) -> Iterator[tuple[str, str]]:
    """Start an S3 server in another process, upload shards; yields addresses by HTTP and S3."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(shards)], stdout=subprocess.PIPE, text=True
    )
    try:
        port = process.stdout.readline().strip()
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            os.environ[name] = "test"
        os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
        yield f"http://127.0.0.1:{port}/bucket/train", "s3://bucket/train"
    finally:
        process.kill()
        process.wait()


SERVER = """
import logging, pathlib, sys, time
import boto3
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
port = server.get_host_and_port()[1]
client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
                      aws_access_key_id="a", aws_secret_access_key="b")
client.create_bucket(Bucket="bucket", ACL="public-read")
for path in pathlib.Path(sys.argv[1]).iterdir():
    client.upload_file(str(path), "bucket", f"train/{path.name}", {"ACL": "public-read"})
print(port, flush=True)
time.sleep(3600)
"""


def measure_start(folder: Path, lines: int, workers: int) -> None:
    """Print seconds to the first batch, and the memory of the workers, for a long list."""
    clips = sum(1 for _ in (folder / "train.txt").open())
    file = folder / f"lines_{lines}.txt"
    write_list(file, lines, clips)
    prefix = dict(video=str(folder))
    sources = {
        "MMAction2's VideoDataset": lambda: VideoDataset(str(file), OURS, prefix),
        "ListedVideoDataset": lambda: ListedVideoDataset(str(file), OURS, prefix),
    }
    long_shards = folder / "shards" / file.stem
    if long_shards.exists():
        sources["ShardedVideoDataset"] = lambda: ShardedVideoDataset(str(long_shards), OURS)
    few = ListedVideoDataset(str(file), OURS, prefix, indices=100)
    base = first_batch("a list of 100 lines", SafeDataset(few), workers, time.time(), 0, 0)
    for name, make in sources.items():
        wall, cpu = time.time(), time.process_time()
        first_batch(name, SafeDataset(make()), workers, wall, cpu, base)


def first_batch(
    name: str, dataset: SafeDataset, workers: int, wall: float, cpu: float, base: float
) -> float:
    """Print when the first batch comes, and the memory of all workers, also above ``base`` (MB)."""
    built = time.process_time() - cpu
    loader = DataLoader(
        dataset,
        batch_size=4,
        shuffle=True,
        num_workers=workers,
        multiprocessing_context="forkserver",
        worker_init_fn=init_worker,
        collate_fn=list,
    )
    batches = iter(loader)
    for _ in range(2 * workers):
        next(batches)
    memory = sum(proportional_set(worker.pid) for worker in batches._workers)
    seconds = time.time() - wall
    costs = f"{built:.1f} s CPU to read the list, {seconds:.1f} s wall to {2 * workers} batches"
    print(f"{name}: {costs}, {memory:.0f} MB in {workers} workers, {memory - base:.0f} MB more")
    return memory


def proportional_set(process: int) -> float:
    """Return the memory of a process in MB; what processes share counts in part for each.

    Pages of files, such as libraries and mapped indexes, are left out: how much of them counts
    depends on who else has them open.
    """
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    sizes = {name: fields for name, _, fields in (line.partition(":") for line in lines)}
    return sum(int(sizes[name].split()[0]) for name in ("Pss_Anon", "Pss_Shmem")) / 1000


def main() -> None:
    """Run a part."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["clips", "speed", "start"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=4)
    args: Namespace = parser.parse_args()
    torch.set_num_threads(1)
    with DefaultScope.overwrite_default_scope("mmaction"):
        if args.part == "clips":
            write_clips(args.folder, args.count)
        elif args.part == "speed":
            measure_speed(args.folder, args.samples)
        else:
            measure_start(args.folder, args.lines, args.workers)


if __name__ == "__main__":
    main()

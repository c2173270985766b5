"""Prepare odd videos with mmvidformer data prepare, and kill the tool again and again.

    python -m stress.prepare_videos --videos 200 --kills 3 --out prepared.json

Generates videos of all kinds of frame rates, sizes, rotations, codecs and containers, and some bad
ones. Each frame shows its number in black and white tiles. The tool is killed (SIGKILL) while it
encodes, and then runs to its end. Fails if a result has other frames than the video, is not
upright, has sound, odd sides or distant key frames, if a video is encoded twice, or if the lists
are wrong.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import NamedTuple

import av
import decord
import numpy as np
from tqdm import tqdm

from mmvidformer.video.video import Video

SHORT_SIDE, KEY_FRAMES = 128, 16
RATES = ("10", "25/2", "15", "24000/1001", "24", "25", "28", "30000/1001", "30", "50", "60")
SIZES = ((96, 64), (64, 96), (340, 256), (256, 340), (320, 180), (130, 128), (128, 128), (65, 49))
# Container: codecs that it holds.
FORMATS = {
    "mp4": ("libx264", "mpeg4", "libx265"),
    "mkv": ("libx264", "ffv1"),
    "mov": ("libx264", "mjpeg"),
    "avi": ("mpeg4", "mjpeg"),
    "webm": ("libvpx-vp9",),
    "ts": ("libx264",),
    "mpg": ("mpeg2video",),
}
# Codecs whose sides may be odd, as their color planes have full size.
FULL_COLOR = ("ffv1", "mjpeg")
# The first row of tiles shows which side is up, the others the bits of the number.
TILES, TOP = 4, (1, 0, 0, 0)


class MadeVideo(NamedTuple):
    """A generated video: its name, its size when upright, and the seconds of its frames."""

    name: str
    size: tuple[int, int]
    times: np.ndarray
    has_constant_rate: bool


def picture(number: int, size: tuple[int, int]) -> np.ndarray:
    """Draw the number of a frame."""
    bits = [*TOP, *(number >> bit & 1 for bit in range(TILES * (TILES - 1)))]
    rows = np.arange(size[1]) * TILES // size[1]
    columns = np.arange(size[0]) * TILES // size[0]
    tiles = np.array(bits, np.uint8).reshape(TILES, TILES)[rows][:, columns]
    return np.repeat((40 + 170 * tiles)[..., None], 3, axis=2).astype(np.uint8)


def number_in(image: np.ndarray) -> int:
    """Read the number of a frame, or return -1 if it is not upright."""
    places = [(np.arange(TILES) * 2 + 1) * side // (2 * TILES) for side in image.shape[:2]]
    bits = (image.mean(2)[np.ix_(*places)] > 125).astype(int).ravel()
    if tuple(bits[:TILES]) != TOP:
        return -1
    return sum(bit << place for place, bit in enumerate(bits[TILES:].tolist()))


def generate(folder: Path, index: int) -> MadeVideo:
    """Write a video that depends on its index."""
    rng = Random(index)
    container = [*FORMATS][index % len(FORMATS)]
    codec, size = rng.choice(FORMATS[container]), rng.choice(SIZES)
    rate = Fraction("25" if container == "mpg" else rng.choice(RATES))
    # FFmpeg does not recognize streams without header that have a few frames.
    count = rng.randint(12 if container in ("ts", "mpg") else 1, 70)
    uneven = container in ("mp4", "mkv") and rng.random() < 0.3
    turns = rng.choice((0, 1, 2, 3)) if container in ("mp4", "mov") else 0
    if codec not in FULL_COLOR:
        size = size[0] // 2 * 2, size[1] // 2 * 2
    steps = [rng.randint(1, 4) if uneven else 1 for _ in range(count)]
    name = f"{index % 10}/{index:03}.{container}"
    (folder / name).parent.mkdir(exist_ok=True)
    with av.open(str(folder / name), "w") as file:
        options = {"deadline": "realtime"} if codec == "libvpx-vp9" else {}
        stream = file.add_stream(codec, rate=rate, options=options)
        stream.bit_rate = 2_000_000
        stream.width, stream.height = size[::-1] if turns % 2 else size
        stream.pix_fmt = {"mjpeg": "yuvj444p", "ffv1": "yuv444p"}.get(codec, "yuv420p")
        stream.codec_context.gop_size = rng.choice((5, 12, 250))
        stream.codec_context.thread_count = 1
        if turns:
            stream.set_display_rotation(90 * turns)
        sound = file.add_stream("aac", rate=16000) if container == "mp4" and count % 2 else None
        for number in range(count):
            image = np.ascontiguousarray(np.rot90(picture(number, size), -turns))
            frame = av.VideoFrame.from_ndarray(image, "rgb24")
            frame.time_base = 1 / rate
            frame.pts = sum(steps[:number])
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
        if sound is not None:
            silence = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.float32), "fltp", "mono")
            silence.sample_rate = 16000
            file.mux(sound.encode(silence))
            file.mux(sound.encode())
    times = np.cumsum([0, *steps[:-1]]) / float(rate)
    return MadeVideo(name, size, times, not uneven)


def make_bad(folder: Path) -> list[str]:
    """Write bad videos and return their names; one of them is missing."""
    video = generate(folder, 0)
    content = (folder / video.name).read_bytes()
    (folder / "cut.mp4").write_bytes(content[: len(content) // 2])
    (folder / "empty.mkv").write_bytes(b"")
    (folder / "text.avi").write_text("no video\n")
    return ["cut.mp4", "empty.mkv", "missing.mp4", "text.avi"]


def faults_of(path: Path, video: MadeVideo) -> list[str]:
    """Return what is wrong with a result."""
    if not path.exists():
        return ["it is missing"]
    faults = []
    with av.open(str(path)) as file:
        packets = [packet for packet in file.demux(video=0) if packet.size]
        if len(file.streams) != 1:
            faults.append("it has sound")
        step = float(1 / file.streams.video[0].average_rate)
    shown_at = np.sort([float(packet.pts * packet.time_base) for packet in packets])
    if not np.allclose(shown_at, np.arange(len(packets)) * step, atol=1e-3):
        faults.append("its rate is not constant")
    keys = [number for number, packet in enumerate(packets) if packet.is_keyframe]
    if max(np.diff([*keys, len(packets)])) > KEY_FRAMES or keys[0]:
        faults.append(f"key frames {keys}")
    shrink = min(1, SHORT_SIDE / min(video.size))
    wanted = [max(2, round(side * shrink / 2) * 2) for side in video.size]
    for backend, read in (("decord", decord.VideoReader), ("pyav", Video.open)):
        reader = read(str(path))
        count = len(video.times) if video.has_constant_rate else len(packets)
        if len(reader) != count:
            faults.append(f"{backend}: {len(reader)} frames instead of {count}")
            continue
        some = range(0, len(reader), 7)  # with seeks, and then all
        for indices in (some, range(len(reader))):
            images = reader.get_batch(indices).asnumpy()
            numbers = [number_in(image) for image in images]
            pairs = list(zip(indices, numbers, strict=True))
            wrong = [(i, n) for i, n in pairs if not is_right(video, i, n, step)]
            if wrong:
                faults.append(f"{backend}: {len(wrong)} wrong frames, (index, shown) {wrong[:5]}")
        if list(images[0].shape[1::-1]) != wanted:
            faults.append(f"{backend}: size {images[0].shape[1::-1]} instead of {wanted}")
    return faults


def is_right(video: MadeVideo, index: int, number: int, step: float) -> bool:
    """Whether frame ``index`` of a result, which is shown for ``step`` s, may show a frame."""
    if video.has_constant_rate or number < 0:
        return number == index
    # Within a frame of the result from the time at which the original shows it.
    end = video.times[number + 1] if number + 1 < len(video.times) else np.inf
    return video.times[number] - step <= index * step + 1e-6 and index * step - step <= end + 1e-6


def run(
    folder: Path, out: Path, total: int, kills: int, options: Sequence[str], log: Path
) -> tuple[int, dict[Path, float]]:
    """Run the tool until it ends, with kills on the way.

    Returns:
        Its exit code, and the videos that were complete at the last kill, with their times.
    """
    command = [sys.executable, "-W", "ignore", "-m", "mmvidformer", "data", "prepare"]
    command += [str(folder / "list.txt"), "--root", str(folder), "--out", str(out)]
    command += ["--workers", "2", *options]
    complete: dict[Path, float] = {}
    for kill in range(kills + 1):
        with log.open("a") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file)
        limit = total * (kill + 1) // (kills + 1)
        while process.poll() is None:
            done = [path for path in out.rglob("*.mp4") if not path.name.startswith(".")]
            if kill < kills and len(done) >= limit:
                process.kill()
                complete = {path: path.stat().st_mtime for path in done} | complete
            time.sleep(0.02)
    return process.returncode, complete


def main(argv: Sequence[str] | None = None) -> int:
    """Run the test and return the exit code."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=200, help="number of videos")
    parser.add_argument("--kills", type=int, default=3, help="number of kills")
    parser.add_argument("--out", type=Path, help=".json file to write")
    args = parser.parse_args(argv)
    figures: dict[str, object] = {"videos": args.videos}
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="prepare_videos_") as name:
        folder = Path(name, "videos")
        folder.mkdir()
        videos = {}
        for index in tqdm(range(1, args.videos + 1), desc="generate", disable=None):
            video = generate(folder, index)
            videos[video.name] = video
        bad = make_bad(folder)
        (folder / "list.txt").write_text(
            "".join(f"{name} {i % 7}\n" for i, name in enumerate([*videos, *bad]))
        )
        figures["bytes_before"] = sum((folder / name).stat().st_size for name in videos)
        out, log, start = Path(name, "out"), Path(name, "log.txt"), time.monotonic()
        options = ["--short-side", str(SHORT_SIDE)]
        code, complete = run(folder, out, args.videos, args.kills, options, log)
        figures |= dict(
            kills=args.kills,
            complete_at_last_kill=len(complete),
            seconds_with_restarts=round(time.monotonic() - start, 1),
        )
        if code != 1:
            raise RuntimeError(f"exit code {code}\n{log.read_text()[-2000:]}")
        results = {v: out / (v if v.endswith(".mp4") else f"{v}.mp4") for v in videos}
        again = [path for path, moment in complete.items() if path.stat().st_mtime != moment]
        lines = [line.split()[0] for line in (out / "list.txt").read_text().splitlines()]
        with (out / "list_bad.csv").open() as file:
            listed = [os.path.relpath(row["path"], folder) for row in csv.DictReader(file)]
        others = {*out.rglob("*")} - {*results.values()}
        lists = {path.name for path in others if path.is_file() and path.suffix != ".part"}
        for present, expected, description in (
            (again, [], "encoded twice"),
            (lines, [str(path.relative_to(out)) for path in results.values()], "list"),
            (listed, bad, "bad videos"),
            (lists, {"list.txt", "list_bad.csv"}, "other files"),
        ):
            if present != expected:
                faults.append(f"{description}: {present}")
        for video in tqdm(videos.values(), desc="check", disable=None):
            for fault in faults_of(results[video.name], video):
                faults.append(f"{video.name}: {fault}")
        sizes = (path.stat().st_size for path in results.values() if path.exists())
        figures["bytes_after"] = sum(sizes)
    figures["faults"] = faults
    print(json.dumps(figures, indent=1))
    if args.out is not None:
        args.out.write_text(json.dumps(figures, indent=1) + "\n")
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())

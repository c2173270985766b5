"""Answer videos of which some are hostile: python -m stress.hostile_videos --videos 300.

Ten of the videos end or hang the process that reads them, have a time stamp in 300 years or none, a
name that is not UTF-8, no content, no video, no key or no frame, or are folders. The command must
go on past them: ``label``, ``features``, or ``demo``, whose one process reads and answers, so that
it gets no video that ends or hangs it. The table has the exit status, the rows, and for each
hostile video its rows or its reason among the failures. Exits with status 1 if a good video lacks
a row, or a hostile one has neither rows nor a reason.
"""

import csv
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import av
from mmcv.transforms import BaseTransform
from pyarrow import parquet

from mmvidformer.config import load_config
from mmvidformer.registry import TRANSFORMS
from stress.kill_labels import write_videos
from stress.odd_kinds import encode, no_frames, sound_only

ROOT = Path(__file__).parents[1]
NOT_UTF8 = os.fsdecode(b"caf\xe9.mp4")


@TRANSFORMS.register_module()
class Trouble(BaseTransform):
    """Ends or hangs the process that reads a file of a certain name."""

    def transform(self, results: dict) -> dict:
        """Look at the name."""
        name = str(results.get("filename"))
        if "ends_its_reader" in name:
            os.kill(os.getpid(), signal.SIGKILL)
        if "hangs" in name:
            ctypes.PyDLL(None).sleep(600)  # in native code that keeps the interpreter's lock
        return results


def late_stamp(path: Path) -> None:
    """Write a video whose last frame is shown in 300 years."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for number in range(30):
            frame = av.VideoFrame(64, 48, "yuv420p")
            frame.pts, frame.time_base = 33 * number, Fraction(1, 1000)
            if number == 29:
                frame.pts = 10**13
            file.mux(stream.encode(frame))
        file.mux(stream.encode())


def encrypted(path: Path) -> None:
    """Write a video that needs a key."""
    options = dict(
        encryption_scheme="cenc-aes-ctr", encryption_key="76a6" * 8, encryption_kid="a7e6" * 8
    )
    plain = path.with_name("plain.tmp")
    encode(plain, count=30, codec="libx264", container="mp4")
    with av.open(str(plain)) as source, av.open(str(path), "w", options=options) as file:
        stream = file.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                file.mux(packet)
    plain.unlink()


HOSTILE: dict[str, Callable[[Path], object]] = {
    "ends_its_reader.mp4": encode,
    "hangs.mp4": encode,
    "late_stamp.mkv": late_stamp,
    "no_stamps.h264": lambda path: encode(path, codec="libx264", container="h264"),
    NOT_UTF8: encode,
    "folder.mp4": Path.mkdir,
    "empty.mp4": Path.touch,
    "sound_only.mp4": sound_only,
    "encrypted.mp4": encrypted,
    "no_frames.mp4": no_frames,
}


TROUBLE = {"ends_its_reader.mp4", "hangs.mp4"}  # of any process that reads them
OPTIONS = {
    "label": "--window 1 --time-limit 20",
    "features": "--time-limit 20",
    "demo": "--window 1",
}


def write_hostile_videos(folder: Path) -> None:
    """Write the ten videos."""
    for name, write in HOSTILE.items():
        write(folder / name)


def write_config_with_trouble(path: Path, config: str) -> None:
    """Write a config whose test pipeline has ``Trouble``."""
    cfg = load_config(config)
    cfg.custom_imports = dict(imports=["stress.hostile_videos"], allow_failed_imports=False)
    cfg.test_dataloader.dataset.pipeline.insert(1, dict(type="mmvidformer.Trouble"))
    cfg.dump(str(path))


def read_parts(out: Path) -> tuple[Counter[str], dict[str, str]]:
    """Return the number of rows of each video in Parquet files, and the reasons of the failures."""
    counts: Counter[str] = Counter()
    for file in out.glob("part-*.parquet"):
        counts.update(parquet.read_table(file, columns=["video"])["video"].to_pylist())
    report = out / "_failed.csv"
    if not report.exists():
        return counts, {}
    with report.open(encoding="utf-8", newline="") as file:
        return counts, {row["video"]: row["reason"] for row in csv.DictReader(file)}


def read_table(out: Path, errors: str) -> tuple[Counter[str], dict[str, str]]:
    """Return the number of rows of each video in a csv file, and the reasons that were printed."""
    with out.open(encoding="utf-8", newline="") as file:
        counts = Counter(Path(row["video"]).name for row in csv.DictReader(file))
    reasons = {}
    for line in errors.splitlines():
        if line.startswith("failed: "):
            video, _, reason = line.removeprefix("failed: ").partition(": ")
            reasons[Path(video).name] = reason
    return counts, reasons


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--command", choices=OPTIONS, default="label")
    parser.add_argument("--videos", type=int, default=300)
    parser.add_argument("--options", help="of the command (default: a few)")
    args = parser.parse_args(argv)
    options = OPTIONS[args.command] if args.options is None else args.options
    is_demo = args.command == "demo"
    with tempfile.TemporaryDirectory() as root:
        videos, out, config = Path(root, "videos"), Path(root, "out"), Path(root, "config.py")
        write_videos(videos, args.videos - len(HOSTILE), bad=False)
        good = {path.name for path in videos.iterdir()}
        write_hostile_videos(videos)
        write_config_with_trouble(config, "camera_motion")
        if is_demo:
            for name in TROUBLE:
                (videos / name).unlink()
        command = [sys.executable, "-W", "ignore", "-m", "mmvidformer", args.command, config]
        command += ["published://camera_motion", videos, "--csv" if is_demo else "--out", out]
        path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)])
        began = time.monotonic()
        run = subprocess.run(
            [*map(str, command), *options.split()],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            errors="replace",
        )
        seconds = time.monotonic() - began
        counts, reasons = read_table(out, run.stderr) if is_demo else read_parts(out)
        shutil.rmtree(videos)
    hostile = HOSTILE.keys() - TROUBLE if is_demo else HOSTILE.keys()
    names = {os.fsencode(name).decode("utf-8", "backslashreplace") for name in hostile}
    answered = len(counts.keys() - names)
    print(f"status {run.returncode} after {seconds:.0f} s")
    print(f"{sum(counts.values())} rows of {answered} of {len(good)} good videos")
    for name in sorted(names):
        what = f"{counts[name]} rows" if name in counts else reasons.get(name, "NOTHING")
        print(f"  {name:22} {what.replace(root, 'DIR')[:150]}")
    lost = names - counts.keys() - reasons.keys()
    if lost or answered < len(good):
        print("\n".join(run.stderr.splitlines()[-8:]))
    return int(bool(lost) or answered < len(good) or run.returncode != 1)


if __name__ == "__main__":
    sys.exit(main())

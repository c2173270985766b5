"""Features of videos: python tools/extract_features.py CONFIG CHECKPOINT VIDEOS --out DIR.

VIDEOS is a video, a folder, or a list in MMAction2's format (.txt). Each video gets a file of the
same name and place, as class/clip.mp4.npy; videos whose file is there are passed over, so that a
call that was cut off goes on. Exit status: 0, or 1 if a video failed (they are in failed.txt).
"""

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mmengine.config import DictAction
from tqdm import tqdm

from mmvidformer.apis.features import FORMATS, check_record, video_features, write_features
from mmvidformer.apis.video_views import VideoViews
from mmvidformer.config import load_config
from mmvidformer.datasets.video_files import find_videos
from mmvidformer.engine.launch import run_tool
from mmvidformer.engine.loading import load_recognizer


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("config", help="a config file, or the name of a shipped config")
    parser.add_argument("checkpoint", help="checkpoint file or address; needs no head")
    parser.add_argument("videos", type=Path, help="video, folder or list")
    parser.add_argument("--out", type=Path, required=True, help="folder of the features")
    parser.add_argument("--format", choices=FORMATS, default="npy", help="default: npy")
    parser.add_argument(
        "--tokens", action="store_true", help="the tokens of each view (views, T, H, W, D)"
    )
    parser.add_argument("--device", default="cpu", help="such as cuda (default: cpu)")
    parser.add_argument(
        "--cfg-options", nargs="+", action=DictAction, help="settings to change, as key=value"
    )
    return parser.parse_args(argv)


def list_videos(source: Path) -> tuple[Path, list[Path]]:
    """The folder that names are relative to, and the videos."""
    if source.is_dir():
        return source, find_videos(source)[0]
    if not source.is_file():
        raise FileNotFoundError(f"there is no video, folder or list {source}")
    if source.suffix != ".txt":
        return source.parent, [source]
    lines = source.read_text(encoding="utf-8").splitlines()
    delimiter = "\t" if any("\t" in line for line in lines) else " "
    names = [line.strip().split(delimiter)[0] for line in lines if line.strip()]
    return source.parent, [source.parent / name for name in names]


def place_of(video: Path, root: Path) -> Path:
    """Place of a video below the root; of one that lies elsewhere its whole path."""
    if video.is_relative_to(root):
        return video.relative_to(root)
    return video.absolute().relative_to(video.absolute().anchor)


def main(argv: Sequence[str] | None = None) -> int:
    """Extract as the command line says; gives the exit status."""
    args = parse_args(argv)
    cfg = load_config(args.config, args.cfg_options)
    root, videos = list_videos(args.videos)
    model = load_recognizer(cfg, args.checkpoint, args.device, head=False)
    settings = {name: getattr(args, name) for name in ("config", "checkpoint", "format", "tokens")}
    check_record(args.out, settings)
    jobs = [(video, args.out / place_of(video, root)) for video in videos]
    features = partial(video_features, model, VideoViews(cfg), tokens=args.tokens)
    counts, failed = Counter(), []
    done = write_features(jobs, features, args.format)
    for video, state in tqdm(done, total=len(jobs), unit="video", disable=None):
        counts[state.partition(":")[0]] += 1
        if state.startswith("failed"):
            failed.append(f"{video}\t{state}")
            tqdm.write(f"{video}: {state}", file=sys.stderr)
    (args.out / "failed.txt").write_text("".join(f"{x}\n" for x in failed), encoding="utf-8")
    print(", ".join(f"{counts[state]} {state}" for state in ("written", "there", "failed")))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run_tool(main))

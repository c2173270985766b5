"""Extract features of videos: mmvidformer features CONFIG CHECKPOINT VIDEOS --out DIR.

VIDEOS is a video, a folder, or a list in MMAction2's format (.txt). The features of class/clip.mp4
go to class/clip.mp4.npy. Videos whose file exists are skipped, so that a run that was interrupted
can be started again. Exit status: 0, or 1 if a video failed (they are listed in failed.txt).
"""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from mmvidformer.apis import VideoPipeline, backbone_features
from mmvidformer.atomic import write_atomically
from mmvidformer.config import load_config
from mmvidformer.datasets.lists import read_list
from mmvidformer.datasets.own_videos import find_videos
from mmvidformer.engine.arguments import add_model_arguments
from mmvidformer.engine.errors import run_tool
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.models.inference import optimize_for_inference


def list_videos(source: Path) -> tuple[Path, list[Path]]:
    """The folder that names are relative to, and the videos."""
    if source.is_dir():
        return source, find_videos(source)
    if not source.is_file():
        raise FileNotFoundError(f"video, folder or list {source} does not exist")
    if source.suffix != ".txt":
        return source.parent, [source]
    return source.parent, [source.parent / path for _, path in read_list(source)]


def target_of(video: Path, root: Path, out: Path) -> Path:
    """File of a video's features; a video outside the root keeps its whole path."""
    if not video.is_relative_to(root):
        video = video.absolute()
        root = Path(video.anchor)
    place = video.relative_to(root)
    return out / place.with_name(f"{place.name}.npy")


def check_settings(out: Path, settings: Mapping[str, object]) -> None:
    """Record the settings of a folder of features, or compare them with those of an old folder."""
    record = out / "features.json"
    if not record.is_file():
        out.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(dict(settings), indent=1) + "\n", encoding="utf-8")
        return
    found = json.loads(record.read_text(encoding="utf-8"))
    differ = sorted(key for key in settings if found.get(key) != settings[key])
    if differ:
        raise FileExistsError(
            f"{out} has features with another {', '.join(differ)} ({record}); use another folder"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser)
    parser.add_argument("videos", type=Path, help="video, folder or list")
    parser.add_argument("--out", type=Path, required=True, help="folder for the features")
    parser.add_argument(
        "--tokens",
        action="store_true",
        help="the tokens of each view (views, T, H, W, D) instead of one vector (D,)",
    )
    args = parser.parse_args(argv)
    root, videos = list_videos(args.videos)
    cfg = load_config(args.config, args.cfg_options)
    pipeline = VideoPipeline(cfg)
    model = load_recognizer(cfg, args.checkpoint, args.device, head=False)
    if not args.tokens:  # the optimized model computes no tokens that the features do not need
        model = optimize_for_inference(model)
    check_settings(args.out, {k: getattr(args, k) for k in ("config", "checkpoint", "tokens")})
    counts, failed = Counter(), []
    for video in tqdm(videos, unit="video", disable=None):
        target = target_of(video, root, args.out)
        if target.exists():
            counts["skipped"] += 1
            continue
        try:
            clips = pipeline.read(pipeline.open(video))["inputs"]
        except (OSError, ValueError) as error:
            failed.append(f"{video}\t{error}\n")
            tqdm.write(f"failed: {error}", file=sys.stderr)
            continue
        values = backbone_features(model, clips, args.tokens)
        values = (values if args.tokens else values.mean(dim=0)).numpy()
        with write_atomically(target) as part, part.open("wb") as file:
            np.save(file, values)
        counts["written"] += 1
    (args.out / "failed.txt").write_text("".join(failed), encoding="utf-8")
    print(f"{counts['written']} written, {counts['skipped']} skipped, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run_tool(main))

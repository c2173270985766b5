"""Show what a model attends to: python tools/visualizations/rollout.py CONFIG CHECKPOINT VIDEO ...

For each video a strip of frames (png) and a film (mp4) with the attention rollout as heat maps.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from mmengine.config import DictAction
from tqdm import tqdm

from mmvidformer.config import load_config
from mmvidformer.engine.launch import run_tool
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.visualization import (
    HeatClip,
    build_view_pipeline,
    draw_strip,
    normalise,
    predict,
    read_names,
    read_video,
    rollout,
    to_frames,
    to_heat,
    write_film,
)


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("config", help="a config file, or the name of a shipped config")
    parser.add_argument("checkpoint", help="checkpoint file or address")
    parser.add_argument("videos", nargs="+", help="video files")
    parser.add_argument("--out-dir", type=Path, required=True, help="folder of the pictures")
    parser.add_argument("--clips", type=int, default=1, help="clips of each video (default: 1)")
    parser.add_argument("--columns", type=int, default=8, help="frames of a strip (default: 8)")
    parser.add_argument("--fps", type=float, default=4, help="of the film (default: 4)")
    parser.add_argument("--names", type=Path, help="text file with a class name a line")
    parser.add_argument("--device", default="cpu", help="such as cuda (default: cpu)")
    parser.add_argument(
        "--cfg-options", nargs="+", action=DictAction, help="settings to change, as key=value"
    )
    args = parser.parse_args(argv)
    for video in args.videos:
        if not Path(video).is_file():
            parser.error(f"there is no video {video}")
    names = [picture_name(video) for video in args.videos]
    if len(set(names)) < len(names):
        parser.error(f"pictures are named by their videos, and names occur twice in {names}")
    return args


def picture_name(video: str) -> str:
    """Name of the pictures of a video, as ``dance_mp4_rollout``."""
    return Path(video).name.replace(".", "_") + "_rollout"


def main(argv: Sequence[str] | None = None) -> None:
    """Draw as the command line says."""
    args = parse_args(argv)
    cfg = load_config(args.config, args.cfg_options)
    model = load_recognizer(cfg, args.checkpoint, args.device)
    names = read_names(args.names, model.cls_head.num_classes) if args.names else None
    pipeline = build_view_pipeline(cfg, args.clips)
    args.out_dir.mkdir(parents=True, exist_ok=True)
    for video in tqdm(args.videos, unit="video", disable=None):
        raw, numbers = read_video(pipeline, video)
        drawn = []
        # One clip at a time: a long one fills the memory of a device by itself.
        for i, clip in enumerate(normalise(model, raw.to(args.device))):
            found = rollout(model.backbone, clip[None])
            heat = to_heat(found.tokens[0], model.backbone.embed.tubelet)
            seen = tuple(slice(n) for n in heat.shape)  # an odd rest fills no tubelet
            words = predict(model, found.features, names)[0]
            title = f"{Path(video).name}, clip {i + 1} of {len(raw)}: {words}"
            frames = to_frames(model.data_preprocessor, clip)[seen]
            drawn.append(HeatClip(title, frames, heat, numbers[i].tolist()[seen[0]]))
        strip = args.out_dir / f"{picture_name(video)}.png"
        draw_strip(drawn, args.columns).savefig(strip)
        write_film(drawn, strip.with_suffix(".mp4"), args.fps)
        tqdm.write(f"{strip} and .mp4")


if __name__ == "__main__":
    sys.exit(run_tool(main))

"""Show what HORST looks back at: python horst_attention.py CONFIG CHECKPOINT VIDEO --out-dir DIR.

For each video a strip (png) of the frames that a layer remembers, weighted by its temporal
attention, with its spatial attention as heat, as in the paper's figures 4 and 5.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from mmengine.config import DictAction
from torch import nn
from tqdm import tqdm

from mmvidformer.apis import (
    Capture,
    FramePipeline,
    StreamFrame,
    build_frame_pipeline,
    load_stream_model,
    read_class_names,
    stream_predictions,
    stream_tasks,
    to_bars,
)
from mmvidformer.config import load_config
from mmvidformer.engine.launch import run_tool
from mmvidformer.visualization import LookBack, draw_look_back, watch_states


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("config", help="a config file, or the name of a shipped config (horst_*)")
    parser.add_argument("checkpoint", help="checkpoint file or address")
    parser.add_argument("videos", nargs="+", help="video files")
    parser.add_argument("--out-dir", type=Path, required=True, help="folder of the pictures")
    parser.add_argument("--layer", type=int, default=-1, help="which layer (default: the last)")
    parser.add_argument(
        "--at",
        type=float,
        nargs="+",
        metavar="SECONDS",
        help="moments of each video to draw: the last step up to then (default: its last step)",
    )
    parser.add_argument(
        "--names",
        nargs="+",
        default=[],
        metavar="FILE",
        help="class names, text with one a line or csv; anticipation: verb=FILE noun=FILE ...",
    )
    parser.add_argument("--device", default="cpu", help="such as cuda (default: cpu)")
    parser.add_argument(
        "--cfg-options", nargs="+", action=DictAction, help="settings to change, as key=value"
    )
    args = parser.parse_args(argv)
    names = [picture_name(video) for video in args.videos]
    if len(set(names)) < len(names):
        parser.error(f"pictures are named by their videos, and names occur twice in {names}")
    return args


def picture_name(video: str) -> str:
    """Name of the picture of a video, as ``dance_mp4_horst.png``."""
    return Path(video).name.replace(".", "_") + "_horst.png"


def look_back(
    model: nn.Module,
    pipeline: FramePipeline,
    video: str,
    layer: int,
    at: Sequence[float] | None,
    names: dict[str, list[str]],
) -> list[LookBack]:
    """Stream a video and note what a layer looks back at, at some moments.

    Raises:
        ValueError: If a moment comes before the second step, where there is nothing to look at.
    """
    moments: dict[float, LookBack] = {}
    count = len(model.neck.layers)
    which = f"layer {layer % count + 1} of {count}"
    with Capture(video) as source, watch_states(model.neck, layer) as watch:
        past: deque[StreamFrame] = deque(maxlen=watch.order + 1)
        for prediction in stream_predictions(model, pipeline.read(source)):
            now = prediction.frame.seconds
            past.append(prediction.frame)
            if watch.latest is None:
                continue
            kept = list(past)[-len(watch.latest.states) - 1 :]
            said = "; ".join(
                f"{bars.heading}: "
                + ", ".join(f"{name} {share:.0%}" for name, share in bars.classes)
                for bars in to_bars(prediction, names, 3, pipeline.time_step)
            )
            moment = LookBack(
                f"{Path(video).name} at {now:.2f} s, {which}, {said}",
                np.stack([frame.picture for frame in kept]),
                [f"{frame.seconds:.2f} s" for frame in kept],
                watch.latest,
            )
            for wanted in at or [float("inf")]:
                if now <= wanted + 1e-6:
                    moments[wanted] = moment
    for wanted in at or [float("inf")]:
        if wanted not in moments:
            raise ValueError(f"{video} has nothing to look back at, at {wanted} s: no second step")
    return [moments[wanted] for wanted in sorted(moments)]


def main(argv: Sequence[str] | None = None) -> None:
    """Draw as the command line says."""
    args = parse_args(argv)
    cfg = load_config(args.config, args.cfg_options)
    model = load_stream_model(cfg, args.checkpoint, args.device)
    names = read_class_names(args.names, stream_tasks(model))
    pipeline = build_frame_pipeline(cfg)
    args.out_dir.mkdir(parents=True, exist_ok=True)
    for video in tqdm(args.videos, unit="video", disable=None):
        moments = look_back(model, pipeline, video, args.layer, args.at, names)
        path = args.out_dir / picture_name(video)
        draw_look_back(moments).savefig(path)
        tqdm.write(str(path))


if __name__ == "__main__":
    sys.exit(run_tool(main))

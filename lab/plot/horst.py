"""Show what HORST attends to: python -m lab plot horst CONFIG CHECKPOINT VIDEO ... --out-dir DIR.

For each video a strip (.png) of the frames that a layer remembers, with their temporal attention
as weights and their spatial attention as heat, as in figures 4 and 5 of the paper.
"""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from lab.horst import LookBack, look_back
from mmvidformer.apis import Capture, Recognizer, StreamFrame
from mmvidformer.apis.heat import enlarge
from mmvidformer.config import load_config
from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.model_options import CheckpointOptions, ClassOptions, ForceOptions
from mmvidformer.engine.options import add_options
from mmvidformer.errors import UserError
from mmvidformer.sinks.annotate import list_bars
from mmvidformer.sinks.figures import save_figure
from mmvidformer.sinks.heatmaps import HeatStrip, draw_strips
from mmvidformer.video.writer import picture_paths


def draw_moments(recognizer: Recognizer, video: Path, args: Namespace) -> list[HeatStrip]:
    """Stream a video, and keep what a layer attends to at the moments."""
    moments = sorted(args.at or [float("inf")])
    strips: dict[float, HeatStrip] = {}
    with Capture(video) as source:
        for look in look_back(recognizer, source, args.layer):
            if look.attention is None:
                continue
            now = look.frame.seconds
            count = len(recognizer.model.neck.layers)  # of a model that has been found to have some
            layer = f"layer {args.layer % count + 1} of {count}"
            title = f"{video.name} at {now:.2f} s, {layer}, {best_classes(look.frame)}"
            strip = to_strip(look, title)
            strips |= {moment: strip for moment in moments if now <= moment + 1e-6}
    for moment in moments:
        if moment not in strips:
            raise UserError(f"{video} has no earlier states at {moment} s: no second step")
    return [strips[moment] for moment in moments]


def to_strip(look: LookBack, title: str) -> HeatStrip:
    """Frames of the states and the current one, with weights and heat, for ``draw_strips``.

    The heat of a past frame is the weights of its places; that of the current frame is their
    mean over the states (``StateWeights.seen``).
    """
    frames = [*look.past, look.frame]
    pictures = np.stack([frame.picture for frame in frames])
    places = torch.cat([look.attention.places, look.attention.seen[None]]).numpy()
    captions = [f"{frame.seconds:.2f} s" for frame in frames]
    captions[-1] += " (current)"
    heat = enlarge(places, pictures.shape[1:3])
    for number, weight in enumerate(look.attention.states.tolist()):
        captions[number] += f", weight {weight:.2f}"
    return HeatStrip(title, pictures, heat, captions, "weight of a place")


def best_classes(frame: StreamFrame) -> str:
    """Return the three best classes of each task and their shares as a line."""
    lines = []
    for bars in list_bars(frame.predictions, 3):
        shares = [f"{name} {share:.0%}" for name, share in bars.classes]
        lines.append(f"{bars.heading}: {', '.join(shares)}")
    return "; ".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_options(parser, CheckpointOptions)
    parser.add_argument("videos", type=Path, nargs="+", help="video files")
    parser.add_argument(
        "--out-dir", type=Path, required=True, help="folder for the pictures", metavar="FOLDER"
    )
    parser.add_argument(
        "--layer", type=int, default=-1, help="its index (default: the last)", metavar="N"
    )
    parser.add_argument(
        "--at",
        type=float,
        nargs="+",
        metavar="SECONDS",
        help="moments to draw: the last step up to then (default: the last step)",
    )
    add_options(parser, ClassOptions)
    add_options(parser, ForceOptions)
    args = parser.parse_args(argv)
    paths = picture_paths(args.videos, args.out_dir, "_horst.png")
    check_outputs(vars(args), zip(map(str, args.videos), paths, strict=True), "out_dir")
    cfg = load_config(args.config, args.cfg_options)
    recognizer = Recognizer(cfg, args.checkpoint, args.device, args.classes)
    for video, path in zip(tqdm(args.videos, unit="video", disable=None), paths, strict=True):
        save_figure(draw_strips(draw_moments(recognizer, video, args)), path)
        tqdm.write(f"written: {path}")

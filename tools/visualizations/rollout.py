"""Show what a model attends to: python tools/visualizations/rollout.py CONFIG CHECKPOINT VIDEO ...

For each video a strip of frames (.png) and a video (.mp4) with the attention rollout as heat maps.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from mmaction.structures import ActionDataSample
from tqdm import tqdm

from mmvidformer.apis import Recognizer, normalize
from mmvidformer.apis.predictions import add_classes_argument
from mmvidformer.config import load_config
from mmvidformer.engine.launch import add_model_arguments, run_tool
from mmvidformer.visualization import rollout
from mmvidformer.visualization.heatmaps import (
    HeatStrip,
    draw_strips,
    overlay,
    to_frames,
    to_heat,
)
from mmvidformer.visualization.pages import draw_page, prediction_bars
from mmvidformer.visualization.videos import VideoOutput, picture_paths


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser)
    parser.add_argument("videos", type=Path, nargs="+", help="video files")
    parser.add_argument("--out-dir", type=Path, required=True, help="folder for the pictures")
    parser.add_argument("--clips", type=int, default=1, help="clips per video (default: 1)")
    parser.add_argument("--columns", type=int, default=8, help="frames of a strip (default: 8)")
    parser.add_argument("--fps", type=float, default=4, help="of the written video (default: 4)")
    add_classes_argument(parser)
    args = parser.parse_args(argv)
    paths = picture_paths(args.videos, args.out_dir, "_rollout.mp4")
    cfg = load_config(args.config, args.cfg_options)
    recognizer = Recognizer(cfg, args.checkpoint, args.device, args.classes, clips=args.clips)
    model = recognizer.model
    bar = tqdm(args.videos, unit="video", disable=None)
    for video, path in zip(bar, paths, strict=True):
        sample = recognizer.pipeline.read(recognizer.pipeline.open(video))
        clips = sample["inputs"]
        numbers = sample["data_samples"].frame_inds.reshape(len(clips), -1)
        strips = []
        with VideoOutput(path, args.fps) as output:
            # One clip at a time: a single long clip can fill the memory of a device.
            for i, clip in enumerate(clips):
                clip = normalize(model, clip[None])
                found = rollout(model.backbone, clip)
                heat = to_heat(found.tokens[0], model.backbone.embed.tubelet)
                seen = tuple(slice(n) for n in heat.shape)  # a remainder fills no tubelet
                frames = to_frames(model.data_preprocessor, clip[0])[seen]
                (scored,) = model.cls_head.predict(found.features, [ActionDataSample()])
                prediction = recognizer.to_prediction(scored)
                captions = [f"frame {number}" for number in numbers[i][seen[0]]]
                title = f"{video.name}, clip {i + 1} of {len(clips)}"
                strips.append(
                    HeatStrip(
                        f"{title}: {prediction.text(1)}",
                        frames,
                        heat,
                        captions,
                        "share / mean share",
                    )
                )
                bars = prediction_bars(prediction, heading=f"clip {i + 1}")
                legend = f"share / mean share: {heat.min():.2f} (blue) to {heat.max():.2f} (red)"
                for frame, hot, caption in zip(
                    frames, overlay(frames, heat), captions, strict=True
                ):
                    output.add(draw_page(frame, f"{title}, {caption}", bars, hot, legend))
        draw_strips(strips, args.columns).savefig(path.with_suffix(".png"))
        tqdm.write(f"written: {path.with_suffix('.png')}, {path}")


if __name__ == "__main__":
    sys.exit(run_tool(main))

"""Show what a model attends to: mmvidformer plot rollout CONFIG CHECKPOINT VIDEO ...

For each video a strip of frames (.png) and a video (.mp4) with the attention rollout as heat maps.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from mmvidformer.apis import Recognizer
from mmvidformer.apis.heat import rollout_clips
from mmvidformer.config import load_config
from mmvidformer.engine.arguments import (
    add_force_argument,
    add_model_arguments,
    check_outputs,
)
from mmvidformer.engine.model_options import ClassOptions
from mmvidformer.engine.options import add_options
from mmvidformer.sinks.figures import save_figure
from mmvidformer.sinks.heatmaps import draw_clip, draw_strips
from mmvidformer.video.writer import VideoOutput, picture_paths


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser)
    parser.add_argument("videos", type=Path, nargs="+", help="video files")
    parser.add_argument(
        "--out-dir", type=Path, required=True, help="folder for the pictures", metavar="FOLDER"
    )
    parser.add_argument(
        "--clips", type=int, default=1, help="clips per video (default: 1)", metavar="N"
    )
    parser.add_argument(
        "--columns", type=int, default=8, help="frames of a strip (default: 8)", metavar="N"
    )
    parser.add_argument(
        "--fps", type=float, default=4, help="of the written video (default: 4)", metavar="FPS"
    )
    add_options(parser, ClassOptions)
    add_force_argument(parser)
    args = parser.parse_args(argv)
    paths = picture_paths(args.videos, args.out_dir, "_rollout.png")
    films = [path.with_suffix(".mp4") for path in paths]
    targets = zip(map(str, [*args.videos, *args.videos]), [*paths, *films], strict=True)
    check_outputs(vars(args), targets, "out_dir")
    cfg = load_config(args.config, args.cfg_options)
    recognizer = Recognizer(cfg, args.checkpoint, args.device, args.classes, clips=args.clips)
    videos = tqdm(args.videos, unit="video", disable=None)
    for video, path, film in zip(videos, paths, films, strict=True):
        sample = recognizer.pipeline.read(recognizer.pipeline.open(video))
        strips = []
        with VideoOutput(film, args.fps) as output:
            for clip in rollout_clips(recognizer, sample):
                title = f"{video.name}, clip {len(strips) + 1} of {len(sample['inputs'])}"
                strip, images = draw_clip(title, *clip)
                strips.append(strip)
                for image in images:
                    output.add(image)
        save_figure(draw_strips(strips, args.columns), path)
        tqdm.write(f"written: {path}, {film}")

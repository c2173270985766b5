"""Show what a model attends to: mmvidformer plot rollout CONFIG CHECKPOINT VIDEO ...

For each video a strip of frames (.png) and a video (.mp4) with the attention rollout as heat maps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.model_options import CheckpointOptions, ClassOptions, ForceOptions
from mmvidformer.engine.options import argument, option, parse_options


@dataclass(frozen=True)
class RolloutOptions(ForceOptions, ClassOptions, CheckpointOptions):
    """A model, videos, and their pictures."""

    videos: Sequence[Path] = argument("video files", type=Path, nargs="+")
    out_dir: Path = option(
        "folder for the pictures", Path(), type=Path, required=True, metavar="FOLDER"
    )
    clips: int = option("clips per video", 1, type=int)
    columns: int = option("frames of a strip", 8, type=int)
    fps: float = option("of the written video", 4.0, type=float, metavar="FPS")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    options = parse_options(RolloutOptions, argv, __doc__)
    from tqdm import tqdm

    from mmvidformer.apis import Recognizer
    from mmvidformer.apis.heat import rollout_clips
    from mmvidformer.config import load_config
    from mmvidformer.sinks.figures import save_figure
    from mmvidformer.sinks.heatmaps import draw_clip, draw_strips
    from mmvidformer.video.writer import VideoOutput, picture_paths

    paths = picture_paths(options.videos, options.out_dir, "_rollout.png")
    films = [path.with_suffix(".mp4") for path in paths]
    targets = zip(map(str, [*options.videos, *options.videos]), [*paths, *films], strict=True)
    check_outputs(vars(options), targets, "out_dir")
    cfg = load_config(options.config, options.cfg_options)
    model = cfg, options.checkpoint, options.device, options.classes
    recognizer = Recognizer(*model, clips=options.clips)
    videos = tqdm(options.videos, unit="video", disable=None)
    for video, path, film in zip(videos, paths, films, strict=True):
        sample = recognizer.pipeline.read(recognizer.pipeline.open(video))
        strips = []
        with VideoOutput(film, options.fps) as output:
            for clip in rollout_clips(recognizer, sample):
                title = f"{video.name}, clip {len(strips) + 1} of {len(sample['inputs'])}"
                strip, images = draw_clip(title, *clip)
                strips.append(strip)
                for image in images:
                    output.add(image)
        save_figure(draw_strips(strips, options.columns), path)
        tqdm.write(f"written: {path}, {film}")

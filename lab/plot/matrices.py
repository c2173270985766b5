"""Draw attention weights: python -m lab plot matrices CONFIG CHECKPOINT VIDEO ... --out-dir DIR.

For each video the weights of a block, keys by queries, of any kernel (figure 2 of feature
fixation).
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from lab.attention_matrices import attention_matrices, draw_matrices
from mmvidformer.apis import Recognizer, normalize
from mmvidformer.config import load_config
from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.model_options import CheckpointOptions, ForceOptions
from mmvidformer.engine.options import add_options
from mmvidformer.sinks.figures import save_figure
from mmvidformer.video.writer import picture_paths


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_options(parser, CheckpointOptions)
    parser.add_argument("videos", type=Path, nargs="+", help="video files")
    parser.add_argument(
        "--out-dir", type=Path, required=True, help="folder for the pictures", metavar="FOLDER"
    )
    parser.add_argument(
        "--block", type=int, default=-1, help="its index (default: the last)", metavar="N"
    )
    add_options(parser, ForceOptions)
    args = parser.parse_args(argv)
    paths = picture_paths(args.videos, args.out_dir, "_attention.png")
    check_outputs(vars(args), zip(map(str, args.videos), paths, strict=True), "out_dir")
    cfg = load_config(args.config, args.cfg_options)
    recognizer = Recognizer(cfg, args.checkpoint, args.device, clips=1)
    for video, path in zip(tqdm(args.videos, unit="video", disable=None), paths, strict=True):
        sample = recognizer.pipeline.read(recognizer.pipeline.open(video))
        clip = normalize(recognizer._model, sample["inputs"][:1])
        matrices = attention_matrices(recognizer._model.backbone, clip, args.block)
        save_figure(draw_matrices(matrices, title=video.name), path)
        tqdm.write(f"written: {path}")

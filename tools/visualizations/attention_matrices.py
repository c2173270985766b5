"""Draw the attention weights of a layer: mmvidformer plot attention CONFIG CHECKPOINT VIDEO ...

For each video a picture (.png) with a matrix of queries and keys for each attention of a block, of
any kernel, as in figure 2 of feature fixation (its rows: feature_fixation/figure2).
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from mmvidformer.apis import Recognizer, normalize
from mmvidformer.config import config_name, load_config
from mmvidformer.engine.arguments import add_model_arguments
from mmvidformer.engine.errors import run_tool
from mmvidformer.visualization.attention_matrices import attention_matrices, draw_matrices
from mmvidformer.visualization.videos import picture_paths


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser)
    parser.add_argument("videos", type=Path, nargs="+", help="video files")
    parser.add_argument("--out-dir", type=Path, required=True, help="folder for the pictures")
    parser.add_argument("--layer", type=int, default=-1, help="index of the block (default: last)")
    parser.add_argument("--group", type=int, help="index of the group of tokens (default: middle)")
    parser.add_argument("--head", type=int, help="its index (default: the mean of the heads)")
    args = parser.parse_args(argv)
    paths = picture_paths(args.videos, args.out_dir, "_attention.png")
    cfg = load_config(args.config, args.cfg_options)
    recognizer = Recognizer(cfg, args.checkpoint, args.device, clips=1)
    model = recognizer._model
    bar = tqdm(args.videos, unit="video", disable=None)
    for video, path in zip(bar, paths, strict=True):
        sample = recognizer.pipeline.read(recognizer.pipeline.open(video))
        clip = normalize(model, sample["inputs"][:1])
        found = attention_matrices(model.backbone, clip, args.layer)
        title = f"{config_name(args.config)}, {video.name}"
        draw_matrices(found, args.group, args.head, title).savefig(path)
        tqdm.write(f"written: {path}")


if __name__ == "__main__":
    sys.exit(run_tool(main))

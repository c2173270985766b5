"""Show what masked pretraining predicts: mmvidformer plot masked CONFIG CHECKPOINT VIDEO ...

For each video a picture with frames of a clip: original, masked and reconstructed.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

import torch
from mmcv.transforms import Compose
from mmengine.dataset import pseudo_collate

from mmvidformer.config import load_config, type_name
from mmvidformer.config.building import building
from mmvidformer.engine.arguments import add_force_argument, add_model_arguments, check_outputs
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.errors import UserError
from mmvidformer.sinks.figures import save_figure
from mmvidformer.video.writer import picture_paths
from mmvidformer.visualization.heatmaps import draw_masked, masked_frames


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser)
    parser.add_argument("videos", type=Path, nargs="+", help="video files")
    parser.add_argument(
        "--out-dir", type=Path, default=Path("pictures"), help="default: pictures", metavar="FOLDER"
    )
    parser.add_argument(
        "--columns", type=int, default=8, help="frames of a row (default: 8)", metavar="N"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the masks (default: 0)", metavar="N"
    )
    add_force_argument(parser)
    args = parser.parse_args(argv)
    paths = picture_paths(args.videos, args.out_dir, "_masked.png")
    check_outputs(vars(args), zip(map(str, args.videos), paths, strict=True), "out_dir")
    cfg = load_config(args.config, args.cfg_options)
    if type_name(cfg.model) != "MaskedPretraining":
        raise UserError(f"{args.config} must be a config of mmvidformer pretrain")
    model = load_recognizer(cfg, args.checkpoint, args.device)
    with building(cfg):
        pipeline = Compose(cfg.train_dataloader.dataset.pipeline)
    torch.manual_seed(args.seed)
    for video, path in zip(args.videos, paths, strict=True):
        data = dict(filename=str(video), label=0, start_index=0, modality="RGB")
        batch = model.data_preprocessor(pseudo_collate([pipeline(data)]))
        images = masked_frames(model, batch["inputs"][0, 0])
        save_figure(draw_masked(images, video.name, args.columns), path)
        print(f"written: {path}")

"""Show what masked pretraining predicts: python -m lab plot masked CONFIG CHECKPOINT VIDEO ...

For each video a picture with frames of a clip: original, masked and reconstructed.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from einops import rearrange
from matplotlib.figure import Figure
from mmcv.transforms import Compose
from mmengine.dataset import pseudo_collate
from torch import Tensor, nn

from mmvidformer.apis.heat import to_frames
from mmvidformer.config import load_config, type_name
from mmvidformer.config.building import building
from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.engine.model_options import CheckpointOptions, ForceOptions
from mmvidformer.engine.options import add_options
from mmvidformer.errors import UserError
from mmvidformer.sinks.figures import save_figure, without_formulas
from mmvidformer.video.writer import picture_paths

ROWS = ("original", "masked", "reconstructed")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_options(parser, CheckpointOptions)
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
    add_options(parser, ForceOptions)
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


@torch.no_grad()
def masked_frames(model: nn.Module, clip: Tensor) -> dict[str, np.ndarray]:
    """Mask a clip and reconstruct it.

    Predictions are relative to the mean and the deviation of each tubelet, which are taken from the
    original, as in the paper's pictures. Visible places show the original.

    Args:
        model: A ``models.masked.MaskedPretraining``.
        clip: Normalized pixels (3, T', H', W').

    Returns:
        RGB frames (T', H', W', 3), uint8, by the names in ``ROWS``; the masked ones are gray.
    """
    pixels = model.pixels(clip[None])
    predicted, visible = model.reconstruct(clip[None])
    mean, std = pixels.mean(-2, keepdim=True), pixels.std(-2, keepdim=True)
    shown = visible.mask()[:, None, :, :, None, None]
    reconstructed = torch.where(shown, pixels, predicted * (std + 1e-6) + mean)
    i, j, k = model.backbone.embed.tubelet

    def frames_of(patches: Tensor) -> np.ndarray:
        layout = "b t h w (i j k) c -> b c (t i) (h j) (w k)"
        (clip,) = rearrange(patches, layout, i=i, j=j, k=k)
        return to_frames(model.data_preprocessor, clip)

    original = frames_of(pixels)
    masked = original.copy()
    hidden = (~shown[0, 0, :, :, 0, 0]).cpu().numpy().repeat(j, 0).repeat(k, 1)
    masked[:, hidden] = 128
    frames = (original, masked, frames_of(reconstructed))
    return dict(zip(ROWS, frames, strict=True))


def draw_masked(images: dict[str, np.ndarray], title: str, columns: int = 8) -> Figure:
    """Draw a row of frames for each result of ``masked_frames``, at most ``columns`` of them."""
    frames = images[ROWS[0]]
    chosen = np.linspace(0, len(frames) - 1, min(columns, len(frames))).round().astype(int)
    tall = frames.shape[1] / frames.shape[2]
    size = (1.4 * len(chosen) + 0.4, len(ROWS) * 1.4 * tall + 0.5)
    figure = Figure(figsize=size, dpi=120, layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes = figure.subplots(len(ROWS), len(chosen), squeeze=False)
    for name, row in zip(ROWS, axes, strict=True):
        for axis, number in zip(row, chosen, strict=True):
            axis.imshow(images[name][number])
            axis.set(xticks=[], yticks=[])
        row[0].set_ylabel(name, fontsize=9)
    for axis, number in zip(axes[0], chosen, strict=True):
        axis.set_title(f"frame {number}", fontsize=8, pad=3)
    return without_formulas(figure)

"""What masked pretraining sees and predicts."""

import numpy as np
import torch
from einops import rearrange
from matplotlib.figure import Figure
from torch import Tensor, nn

from mmvidformer.visualization.heatmaps import to_frames

ROWS = ("original", "masked", "reconstructed")


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
    found, visible = model.reconstruct(clip[None])
    mean, std = pixels.mean(-2, keepdim=True), pixels.std(-2, keepdim=True)
    shown = visible.mask()[:, None, :, :, None, None]
    i, j, k = model.backbone.embed.tubelet
    guess = torch.where(shown, pixels, found * (std + 1e-6) + mean)
    layout = "b t h w (i j k) c -> b c (t i) (h j) (w k)"
    clips = [rearrange(x, layout, i=i, j=j, k=k)[0] for x in (pixels, pixels, guess)]
    frames = [to_frames(model.data_preprocessor, x) for x in clips]
    hidden = (~shown[0, 0, :, :, 0, 0]).cpu().numpy().repeat(j, 0).repeat(k, 1)
    frames[1][:, hidden] = 128
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
    return figure

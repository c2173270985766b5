"""Features of videos: what a recognizer's backbone gives to its head."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.apis.pipeline import VideoPipeline, normalize
from mmvidformer.apis.windows import check_step, list_windows, read_ahead
from mmvidformer.models.reuse import frames_of_stage


@torch.no_grad()
def backbone_features(
    model: nn.Module, clips: Tensor, tokens: bool = False, batch_size: int = 4
) -> Tensor:
    """Run the backbone of a recognizer on clips.

    Args:
        model: A recognizer with a ``VideoTransformer`` or preset, in evaluation mode.
        clips: Clips (N, C, T, H, W) of a pipeline.
        tokens: Whether to return the encoder's tokens instead of one vector per clip.
        batch_size: Number of clips per forward pass.

    Returns:
        Features (N, D), averaged over the tokens if the backbone leaves that to its head; or
        tokens (N, T, H, W, D). On the CPU, float32.

    Raises:
        ValueError: If the model has another backbone.
    """
    if not hasattr(model.backbone, "forward_features"):
        raise ValueError(f"{type(model.backbone).__name__} is not a transformer with features")
    found = []
    for part in normalize(model, clips).split(batch_size):
        features = model.backbone.forward_features(part)[0] if tokens else model.backbone(part)
        if not tokens and features.dim() == 5:
            features = features.mean(dim=(1, 2, 3))
        found.append(features.float().cpu())
    return torch.cat(found)


def read_windows(
    pipeline: VideoPipeline, video: dict, every: int, model: nn.Module
) -> tuple[dict[str, Any], Iterator[Tensor]]:
    """Read the clip that starts every N frames of an opened video, in a thread.

    Returns:
        What ``LoadFeatures`` needs to know, ``every``, ``span``, ``fps`` and ``frames``; the span
        of a clip whose frames are spread over a video is ``every``. And views (crops, C, T, H, W)
        of each clip; the first of a video that is shorter than a clip.
    """
    fps, frames = video["avg_fps"], video["total_frames"]
    span = max(round(pipeline.span(fps) or every), 1)
    check_step(span, every, pipeline.period(span, fps, frames_of_stage(model)), fps)
    spans = list_windows(frames, span, every, to_end=False)
    clips = read_ahead(pipeline.read(video, one)["inputs"] for one in spans)
    return dict(every=every, span=span, fps=fps, frames=frames), clips

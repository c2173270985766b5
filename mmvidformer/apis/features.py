"""Features of clips: what a recognizer's backbone gives to its head."""

from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.apis.pipeline import normalize
from mmvidformer.models.shared_frames import SharedFrames


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
    _check_backbone(model)
    parts = []
    for part in normalize(model, clips).split(batch_size):
        backbone = model.backbone
        features = backbone.forward_features(part).places if tokens else backbone(part)
        parts.append(features if tokens else _pool(features))
    return torch.cat([part.float().cpu() for part in parts])


@torch.no_grad()
def window_features(shared: SharedFrames, sample: dict) -> Tensor:
    """Return ``backbone_features`` of a window, whose views (N, C, T, H, W) run together.

    Args:
        shared: The model, and what it knows of the frames of earlier windows.
        sample: The window, from a ``VideoPipeline``.
    """
    model: Any = shared.stages.model
    after: Any = shared.stages.after
    _check_backbone(model)
    views = normalize(model, sample["inputs"])
    features = shared.encode(views[None], [sample["data_samples"]])
    if features is None:
        return backbone_features(model, sample["inputs"])
    return _pool(after.backbone(features[0])).float().cpu()


def _check_backbone(model: nn.Module) -> None:
    if not hasattr(model.backbone, "forward_features"):
        raise ValueError(f"{type(model.backbone).__name__} is not a transformer with features")


def _pool(features: Tensor) -> Tensor:
    """Average tokens (N, T, H, W, D) to (N, D); features that are pooled stay."""
    return features.mean(dim=(1, 2, 3)) if features.dim() == 5 else features

"""Features of clips: what a recognizer's backbone gives to its head."""

import torch
from torch import Tensor, nn

from mmvidformer.apis.pipeline import normalize


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
    parts = []
    for part in normalize(model, clips).split(batch_size):
        features = model.backbone.forward_features(part)[0] if tokens else model.backbone(part)
        if not tokens and features.dim() == 5:
            features = features.mean(dim=(1, 2, 3))
        parts.append(features.float().cpu())
    return torch.cat(parts)

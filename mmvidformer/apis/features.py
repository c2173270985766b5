"""Features of clips: what a recognizer's backbone gives to its head."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.apis.pipeline import normalize
from mmvidformer.errors import UserError
from mmvidformer.layers.outputs import (
    SomeOutputs,
    average_places,
    check_layers,
    join_places,
    join_vectors,
)
from mmvidformer.models.fast.shared_frames import SharedFrames


@torch.no_grad()
def backbone_features(
    model: nn.Module,
    clips: Tensor,
    tokens: bool = False,
    batch_size: int = 4,
    layers: Sequence[int] | None = None,
) -> Tensor:
    """Run the backbone of a recognizer on clips.

    Args:
        model: A recognizer with a ``VideoTransformer`` or preset, in evaluation mode.
        clips: Clips (N, C, T, H, W) of a pipeline.
        tokens: Whether to return the encoder's tokens instead of one vector per clip.
        batch_size: Number of clips per forward pass.
        layers: Numbers of blocks, from 0, whose outputs follow each other in the width of the
            features: each normalized and pooled as the last one is. Default: the last one alone.

    Returns:
        Features (N, D), averaged over the tokens if the backbone leaves that to its head; or
        tokens (N, T, H, W, D). On the CPU, float32.

    Raises:
        UserError: If the model has another backbone, there is no such layer, or the tokens of
            layers are of different frames or places.
    """
    check_features(model, layers or ())
    parts = []
    for part in normalize(model, clips).split(batch_size):
        backbone = model.backbone
        if layers is not None:
            parts.append(layer_features(backbone, part, tokens, layers))
            continue
        features = backbone.forward_features(part).places if tokens else backbone(part)
        parts.append(features if tokens else average_places(features))
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
    views = normalize(model, sample["inputs"])
    features = shared.encode(views[None], [sample["data_samples"]])
    if features is None:
        return backbone_features(model, sample["inputs"])
    return average_places(after.backbone(features[0])).float().cpu()


def check_features(model: nn.Module, layers: Sequence[int] = ()) -> None:
    """Raise a UserError if the model has no features, or a layer is none of its blocks."""
    backbone: Any = model.backbone
    if not hasattr(backbone, "forward_features"):
        raise UserError(f"{type(backbone).__name__} is not a transformer with features")
    if layers:
        check_layers(backbone, layers)


def layer_features(backbone: Any, clips: Tensor, tokens: bool, layers: Sequence[int]) -> Tensor:
    """Return features (N, L D) of L layers, or tokens (N, T, H, W, L D)."""
    outputs = SomeOutputs(layers)
    backbone.forward_features(clips, outputs=outputs)
    join = join_places if tokens else join_vectors
    return join(backbone, outputs, len(clips), layers)

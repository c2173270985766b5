"""Features of clips: what a recognizer's backbone gives to its head."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.apis.pipeline import normalize
from mmvidformer.errors import UserError
from mmvidformer.layers.tokens import Tokens, pool_tokens
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
    check_layers(model, layers or ())
    parts = []
    for part in normalize(model, clips).split(batch_size):
        backbone = model.backbone
        if layers is not None:
            parts.append(layer_features(backbone, part, tokens, layers))
            continue
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
    views = normalize(model, sample["inputs"])
    features = shared.encode(views[None], [sample["data_samples"]])
    if features is None:
        return backbone_features(model, sample["inputs"])
    return _pool(after.backbone(features[0])).float().cpu()


def check_layers(model: nn.Module, layers: Sequence[int] = ()) -> None:
    """Raise a UserError if the model has no features, or a layer is none of its blocks."""
    backbone: Any = model.backbone
    if not hasattr(backbone, "forward_features"):
        raise UserError(f"{type(backbone).__name__} is not a transformer with features")
    if not layers:
        return
    depth = sum(len(encoder.blocks) for encoder in backbone.encoders)
    if wrong := [number for number in layers if not 0 <= number < depth]:
        raise UserError(f"layers must be 0 to {depth - 1}, got {wrong[0]}")


class _SomeOutputs(list):
    """Tokens after each block, of which those of some blocks are kept, and None for others."""

    def __init__(self, numbers: Sequence[int]) -> None:
        super().__init__()
        self._numbers = {*numbers}

    def append(self, tokens: Tokens) -> None:
        super().append(tokens if len(self) in self._numbers else None)


def layer_features(backbone: Any, clips: Tensor, tokens: bool, layers: Sequence[int]) -> Tensor:
    """Return features (N, L D) of L layers, or tokens (N, T, H, W, L D)."""
    blocks = []  # of all encoders: encoder, number in it
    for encoder in backbone.encoders:
        blocks += [(encoder, number) for number in range(len(encoder.blocks))]
    outputs = _SomeOutputs(layers)
    backbone.forward_features(clips, outputs=outputs)
    features_of_layers = []
    for layer in layers:
        encoder, number = blocks[layer]
        end = encoder, encoder.norm_of(number), outputs[layer], len(clips)
        features = _dense(*end) if tokens else _pool(backbone.pool_features(_finish(*end)))
        features_of_layers.append(features)
    if len({x.shape[:-1] for x in features_of_layers}) > 1:
        shapes = ", ".join(str(tuple(x.shape[1:-1])) for x in features_of_layers)
        raise UserError(
            f"layers {' '.join(map(str, layers))} have tokens (T, H, W) of {shapes}; choose layers "
            "of one encoder, or do without tokens"
        )
    return torch.cat(features_of_layers, dim=-1)


def _dense(encoder: Any, norm: nn.Module, output: Tokens, count: int) -> Tensor:
    """Return normalized places (N, T, H, W, D) of the tokens after a block, for N clips."""
    places = output.places
    if encoder.single_frames:  # (N T, 1, H, W, D)
        places = places[:, 0].unflatten(0, (count, -1))
    if encoder.frames == "average":
        places = places.mean(dim=1, keepdim=True)
    return norm(places)


def _finish(encoder: Any, norm: nn.Module, output: Tokens, count: int) -> Tokens:
    """Return what an encoder would return if a block were its last one, for N clips."""
    tensor, context = output
    if encoder.frames == "together":
        return Tokens(norm(tensor), context)
    if encoder.frames == "average":
        averaged = tensor.unflatten(0, (count, -1)).mean(dim=1)
        return Tokens(norm(averaged), context)
    if encoder.frames == "token":
        frames = norm(output.prefix)
    else:
        frames = pool_tokens(Tokens(norm(tensor), context), "cls")
        frames = frames.unflatten(0, (count, -1))
    return Tokens.of(frames[:, :, None, None])


def _pool(features: Tensor) -> Tensor:
    """Average tokens (N, T, H, W, D) to (N, D); features that are pooled stay."""
    return features.mean(dim=(1, 2, 3)) if features.dim() == 5 else features

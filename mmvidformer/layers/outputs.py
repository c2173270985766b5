"""Outputs of chosen blocks of a ``VideoTransformer``, side by side."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.tokens import Tokens, pool_tokens


class SomeOutputs(list):
    """Tokens after each block, of which those of some blocks are kept, and None for others."""

    def __init__(self, numbers: Sequence[int]) -> None:
        super().__init__()
        self._numbers = {*numbers}

    def append(self, tokens: Tokens) -> None:
        """Keep the tokens after the next block, or None."""
        super().append(tokens if len(self) in self._numbers else None)


def check_layers(backbone: Any, layers: Sequence[int]) -> None:
    """Raise a UserError if a number is that of no block of a backbone."""
    depth = sum(len(encoder.blocks) for encoder in backbone.encoders)
    if wrong := [number for number in layers if not 0 <= number < depth]:
        raise UserError(f"layers must be 0 to {depth - 1}, got {wrong[0]}")


def width_of_layers(backbone: Any, layers: Sequence[int]) -> int:
    """Return the width of the joined tokens of blocks of a backbone."""
    widths = []
    for config in backbone.configs:
        widths += [config.sizes["embed_dims"]] * config.sizes["depth"]
    return sum(widths[layer] for layer in layers)


def join_places(
    backbone: Any, outputs: Sequence[Tokens], count: int, layers: Sequence[int]
) -> Tensor:
    """Join the normalized places after blocks along their width.

    Args:
        backbone: The ``VideoTransformer``.
        outputs: What ``forward_features`` appended to a list, of ``SomeOutputs`` at least.
        count: Number N of clips.
        layers: Numbers of L blocks, from 0 over all encoders.

    Returns:
        Tokens (N, T, H, W, L D).

    Raises:
        UserError: If the tokens of the blocks are of different frames or places.
    """
    places = []
    for layer in layers:
        encoder, norm = _end_of(backbone, layer)
        places.append(_dense(encoder, norm, outputs[layer], count))
    if len({x.shape[:-1] for x in places}) > 1:
        shapes = ", ".join(str(tuple(x.shape[1:-1])) for x in places)
        raise UserError(
            f"layers {' '.join(map(str, layers))} have tokens (T, H, W) of {shapes}; choose layers "
            "of one encoder, or do without tokens"
        )
    return torch.cat(places, dim=-1)


def join_vectors(
    backbone: Any, outputs: Sequence[Tokens], count: int, layers: Sequence[int]
) -> Tensor:
    """Join the outputs (N, L D) of the backbone if each of some blocks were its last one.

    The arguments are those of ``join_places``.
    """
    vectors = []
    for layer in layers:
        tokens = _finish(*_end_of(backbone, layer), outputs[layer], count)
        vectors.append(average_places(backbone.pool_features(tokens)))
    return torch.cat(vectors, dim=-1)


def normalize_layers(backbone: Any, places: Tensor) -> Tensor:
    """Apply the ``fc_norm`` of a backbone to the tokens (N, T, H, W, L D) of L layers."""
    if isinstance(backbone.fc_norm, nn.Identity):
        return places
    width = backbone.configs[-1].sizes["embed_dims"]
    return backbone.fc_norm(places.unflatten(-1, (-1, width))).flatten(-2)


def average_places(features: Tensor) -> Tensor:
    """Average tokens (N, T, H, W, D), or (N, ..., D), to (N, D); features that are pooled stay."""
    return features.flatten(1, -2).mean(dim=1) if features.dim() > 2 else features


def _end_of(backbone: Any, layer: int) -> tuple[Any, nn.Module]:
    """Return the encoder of a block, and the norm of what the block returns."""
    number = layer
    for encoder in backbone.encoders:
        if number < len(encoder.blocks):
            return encoder, encoder.norm_of(number)
        number -= len(encoder.blocks)
    raise IndexError(layer)


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

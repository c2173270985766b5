"""Places that are drawn at random, for masked pretraining and training on fewer tokens."""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor

from mmvidformer.layers.tokens import Places, Tokens
from mmvidformer.models.fast.wrapping import wrap
from mmvidformer.models.lengths import run_by_length, valid_frames


def draw_places(clips: Tensor, size: tuple[int, ...], count: int) -> tuple[Places, Places]:
    """Draw some places for each of B clips, and return them and the others, both in order.

    Args:
        clips: Clips (B, ...), for the device and B.
        size: Size of what they are drawn from; see ``Places``.
        count: Number of the places of a clip.
    """
    draws = torch.rand(len(clips), prod(size), device=clips.device)
    drawn, others = draws.argsort(dim=1).tensor_split([count], dim=1)
    return Places(drawn.sort().values, size), Places(others.sort().values, size)


def draw_tokens(backbone: Any, clips: Tensor, share: float) -> Places:
    """Draw the tokens of clips (B, 3, T', H', W') that a ``VideoTransformer`` trains on.

    They are any of a clip if the model takes them and pools them, else the same places in all
    frames.

    Args:
        backbone: The model.
        clips: The clips.
        share: Share of the places, rounded, at least one.
    """
    size = backbone.embed.grid(clips.shape[2:])
    in_frames = any(conflict.rules_out == "tokens" for conflict in backbone.conflicts)
    if in_frames or backbone.pool in ("none", "all"):
        size = size[1:]
    return draw_places(clips, size, max(round(share * prod(size)), 1))[0]


def drop_tokens(backbone: Any) -> None:
    """Let a ``VideoTransformer`` train on the ``token_keep`` of the tokens of a clip, in place."""
    wrap(backbone, "forward", forward)
    wrap(backbone, "forward_features", forward_features)


def forward(
    backbone: Any,
    run: Callable[..., Any],
    clip: Tensor,
    valid: Tensor | None = None,
    kept: Places | None = None,
    counts: Tensor | None = None,
) -> Any:
    """Forward pass of a ``VideoTransformer``, of the tokens that are drawn in training."""
    if not _drops(backbone, kept, counts):
        return run(clip, valid, kept, counts)
    if valid is None:
        return run(clip, None, draw_tokens(backbone, clip, backbone.token_keep))
    multiple = backbone.embed.tubelet[0] if backbone.embed.separate_frames else 1
    features = run_by_length(backbone.forward, valid_frames(clip, valid, multiple))
    return features if backbone.pool in ("none", "all") else torch.stack(features)


def forward_features(
    backbone: Any,
    run: Callable[..., Tokens],
    clip: Tensor,
    outputs: list[Tokens] | None = None,
    kept: Places | None = None,
    counts: Tensor | None = None,
) -> Tokens:
    """``VideoTransformer.forward_features`` of the tokens that are drawn in training."""
    if _drops(backbone, kept, counts):
        kept = draw_tokens(backbone, clip, backbone.token_keep)
    return run(clip, outputs, kept, counts)


def _drops(backbone: Any, kept: Places | None, counts: Tensor | None) -> bool:
    return backbone.training and backbone.token_keep < 1 and kept is None and counts is None

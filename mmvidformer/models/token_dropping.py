"""Places that are drawn at random, for masked pretraining and training on fewer tokens."""

from math import prod
from typing import Any

import torch
from torch import Tensor

from mmvidformer.layers.tokens import Places


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
    if in_frames or backbone.pool == "none":
        size = size[1:]
    return draw_places(clips, size, max(round(share * prod(size)), 1))[0]

"""Models whose first encoder sees each tubelet on its own, such as ViViT's model 2."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mmvidformer.layers.frames import split_frames
from mmvidformer.layers.tokens import Tokens
from mmvidformer.models.lengths import run_by_length


def encodes_frames(model: Any) -> bool:
    """Return whether the first encoder of a ``VideoTransformer`` sees each tubelet on its own.

    One whose output joins blocks is run as a whole.
    """
    if model.out_layers:
        return False
    return model.embed.separate_frames and model.encoders[0].single_frames


def encode_frames(model: Any, clip: Tensor) -> Tensor:
    """Encode each tubelet of clips on its own, by a model that ``encodes_frames``.

    ``forward_frames(model, encode_frames(model, clip))`` is ``model(clip)`` in evaluation mode.
    Tubelets that clips share need not be encoded again (``models.fast.shared_frames``).

    Args:
        model: A ``VideoTransformer``.
        clip: Normalized pixels (B, 3, T', H', W').

    Returns:
        Features (B, D, T, h, w) of the T tubelets: one vector each if the encoder pools them, and
        the tokens that are read if it averages them over time.
    """
    first = model.encoders[0]
    frames = split_frames(Tokens.of(model.embed(clip), prefix_only=True))  # of B T clips
    if first.frames == "pool":
        places = first(frames).places
    else:  # they are averaged before the norm
        outputs: list[Tokens] = []
        first(frames, outputs)
        reads_prefix = len(model.encoders) == 1 and model.pool == "cls"
        places = outputs[-1].prefix[:, :1, None, None] if reads_prefix else outputs[-1].places
    return places.unflatten(0, (clip.shape[0], -1))[:, :, 0].movedim(-1, 1)


def forward_frames(model: Any, features: Tensor) -> Tensor:
    """Return the output for clips of the features (B, D, T, h, w) of ``encode_frames``."""
    places, first = features.movedim(1, -1), model.encoders[0]
    if first.frames == "average":
        places = first.norm(places.mean(dim=1, keepdim=True))
    return _run_later_encoders(model, Tokens.of(places, prefix_only=True))


def run_clips(model: Any, clips: Sequence[Tensor]) -> list[Tensor]:
    """Return the output for each of clips (3, T_i, H', W'), whose frames are encoded together.

    The later encoders take clips of one length together.
    """
    frames = model.embed(torch.cat([*clips], dim=1)[None]).transpose(0, 1)  # (N, 1, H, W, D)
    lengths = [model.embed.grid(clip.shape[1:])[0] for clip in clips]
    first, rows = model.encoders[0], torch.tensor(lengths, device=frames.device)
    tokens = first(Tokens.of(frames, clip_rows=rows, prefix_only=True))
    if first.frames == "average":  # clips of any length have one length now
        return list(_run_later_encoders(model, tokens))

    def run(vectors: Tensor) -> Tensor:  # (B, T, 1, D)
        tokens = Tokens.of(vectors[:, :, None], prefix_only=True)
        return _run_later_encoders(model, tokens)

    return run_by_length(run, tokens.tensor.split(lengths))


def _run_later_encoders(model: Any, tokens: Tokens) -> Tensor:
    for encoder in model.encoders[1:]:
        tokens = encoder(tokens)
    return model.pool_features(tokens)

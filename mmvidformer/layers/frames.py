"""Frames that are encoded on their own, as clips, and what becomes of them afterwards."""

import torch
from torch import Tensor

from mmvidformer.layers.tokens import Context, Grid, Size, Tokens, split_counts, weighted_mean


def split_frames(tokens: Tokens) -> Tokens:
    """Make a clip of each frame: places (B, T H W, D) to (B T, H W, D), without a prefix."""
    context = tokens.context
    frames = context.grid.t
    kept, counts = context.kept, context.counts
    if counts is not None:
        counts, _ = split_counts(counts, kept)
        counts = counts.flatten(0, 1)[:, None]
    if kept is not None:
        kept = kept._replace(numbers=kept.numbers.repeat_interleave(frames, 0))
    places = tokens.places
    rows = context.clip_rows
    if rows is None:
        rows = torch.ones(places.shape[0], dtype=torch.long, device=places.device)
    return Tokens.of(
        places.flatten(0, 1)[:, None],
        kept=kept,
        counts=counts,
        clip_rows=rows * frames,
        prefix_only=context.prefix_only,
    )


def average_frames(frames: Tensor, clips: Context) -> tuple[Tensor, Tensor | None]:
    """Average the tokens of the frames of each clip.

    Args:
        frames: The tokens, (B T, P + H W, D).
        clips: The context of the clips.

    Returns:
        Their means (B, P + H W, D), and how often each place counts, (B, 1, H, W); None: once.
    """
    if clips.clip_rows is not None:
        clips_apart = frames.split(clips.clip_rows.tolist())
        return torch.stack([clip.mean(dim=0) for clip in clips_apart]), None
    frames = frames.unflatten(0, (-1, clips.grid.t))
    if clips.counts is None:
        return frames.mean(dim=1), None
    within_frames, of_frames = split_counts(clips.counts, clips.kept)
    places = clips.counts.flatten(2)  # (B, T, H W)
    prefix = of_frames.flatten(2).expand(-1, -1, frames.shape[2] - places.shape[2])
    means = weighted_mean(frames, torch.cat([prefix, places], dim=2), dim=1)
    return means, within_frames.amax(dim=1, keepdim=True)


def one_per_frame(frames: Tensor, clips: Context) -> Tokens:
    """Return vectors of frames (B, T, D) as the tokens of their clips."""
    grid, counts = clips.grid._replace(h=1, w=1, prefix=0), clips.counts
    if counts is not None:
        _, counts = split_counts(counts, clips.kept)
    return Tokens(frames, clips._replace(grid=grid, kept=None, counts=counts))


def frame_tokens_first(tokens: Tokens, size: Size) -> Tokens:
    """Make a prefix of the T tokens of frames, each of which stands before its frame's places."""
    frames = tokens.tensor.unflatten(1, (size[0], -1))  # (B, T, 1 + H W, D)
    tensor = torch.cat([frames[:, :, 0], frames[:, :, 1:].flatten(1, 2)], dim=1)
    return Tokens(tensor, tokens.context._replace(grid=Grid(*size, prefix=size[0])))

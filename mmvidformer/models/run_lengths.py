"""Run lengths: a tubelet that stays as it was is computed once, and counts as many (RLT).

Choudhury et al. 2024 compare each tubelet with the one before it. Here it is compared with the
first of its run, which stands for it: so they never differ by more than the tolerance, however
slowly a picture changes.
"""

from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mmvidformer.layers.tokens import Grid, Places, Tokens

MOST_TOKENS = 0.95  # of a clip: with more, all are computed, which is exact and as fast


class RunLengths(NamedTuple):
    """The runs of equal tubelets of clips (B, 3, T', H', W'), and where each place is in them.

    Attributes:
        keep: The first tubelet of each of N runs. A clip with fewer runs is filled with others.
        boxes: Their pixels, (B, 1, 1, N, P).
        weight: Lengths of the runs, (B, 1, 1, N); 0: no run.
        run_of_place: Number of the run of each place, (B, T, H, W).
    """

    keep: Places
    boxes: Tensor
    weight: Tensor
    run_of_place: Tensor

    def spread(self, tokens: Tokens) -> Tokens:
        """Give each place the token of its run: (B, P + N, D) to (B, P + T H W, D).

        Tokens of a prefix alone stay.
        """
        context = tokens.context._replace(keep=None, weight=None)
        if not context.grid.t:
            return Tokens(tokens.tensor, context)
        _, t, h, w = self.run_of_place.shape
        grid = Grid(t, h, w, context.grid.prefix)
        places = Places(self.run_of_place.flatten(1), context.grid.size).take(tokens.places)
        return Tokens(grid.join(tokens.prefix, places), context._replace(grid=grid))


def find_runs(backbone: Any, clips: Tensor, tolerance: float) -> RunLengths | None:
    """Find the runs of clips.

    Args:
        backbone: A ``VideoTransformer`` whose tubelets do not overlap.
        clips: Normalized pixels (B, 3, T', H', W').
        tolerance: Largest mean absolute difference of the pixels of a tubelet from those of the
            first of its run. 0: they are equal.

    Returns:
        The runs; None if a clip has more than 0.95 as many of them as tubelets, also if a sample of
        its pixels looks so (``most_moving``).
    """
    embed = backbone.embed
    if embed.grid(clips.shape[2:])[0] == 1:  # each tubelet begins a run
        return None
    if share_moving(embed.sample_boxes(clips), tolerance) > most_moving(backbone):
        return None
    boxes = embed.boxes(clips)
    begins = begins_run(boxes, tolerance)  # (B, T, H, W)
    size, count = begins.shape[1:], begins[0].numel()
    most = int(begins.sum(dim=(1, 2, 3)).max())
    if most > MOST_TOKENS * count:
        return None
    places = torch.arange(count, device=clips.device).view(size)
    first = torch.where(begins, places, 0).cummax(dim=1).values.flatten(1)  # of the run of a place
    lengths = torch.zeros_like(first).scatter_add(1, first, torch.ones_like(first))
    order = begins.flatten(1).sort(dim=1, descending=True, stable=True).indices
    numbers = order[:, :most]
    rank = begins.flatten(1).cumsum(dim=1) - 1  # of the runs, in the order of their beginnings
    run_of_place = rank.take_along_dim(first, dim=1).unflatten(1, size)
    weight = lengths.take_along_dim(numbers, dim=1)[:, None, None].to(clips.dtype)
    keep = Places(numbers, tuple(size))
    return RunLengths(keep, keep.take(boxes), weight, run_of_place)


def share_moving(samples: Tensor, tolerance: float) -> float:
    """Estimate how many of the tubelets begin a run, of the clip that has most of them.

    This is all that a moving camera costs.

    Args:
        samples: Some pixels of each tubelet, (B, T, H, W, S).
        tolerance: See ``find_runs``.
    """
    differs = (samples[:, 1:] - samples[:, :-1]).abs_().mean(dim=-1) > tolerance
    most, frames = differs.mean(dim=(1, 2, 3), dtype=samples.dtype).max(), samples.shape[1]
    return (1 + (frames - 1) * float(most)) / frames  # the first frame begins runs


def most_moving(backbone: Any) -> float:
    """Return the share of tubelets up to which it is worth to look for runs.

    Comparing a pixel with that of the first of a run, and taking it, costs as much time on a CPU as
    about 50 multiplications of the blocks (reports/inexact.md). The estimate is often too low by a
    few tokens in a hundred, so twice as many are counted.
    """
    embed = backbone.embed
    pixels = embed.in_channels * prod(embed.tubelet)
    blocks = sum(len(encoder.blocks) for encoder in backbone.encoders)
    products = 12 * blocks * backbone.embed_dims**2  # of a token
    return max(0.5, MOST_TOKENS - 100 * pixels / products)


@torch.no_grad()
def begins_run(boxes: Tensor, tolerance: float) -> Tensor:
    """Return which tubelets (B, T, H, W, P) begin a run, (B, T, H, W)."""
    first = boxes[:, 0].clone()
    difference = torch.empty_like(first)  # reused, as new memory takes longer than the difference
    begins = [torch.ones(first.shape[:-1], dtype=torch.bool, device=boxes.device)]
    for tubelets in boxes[:, 1:].unbind(dim=1):
        torch.sub(tubelets, first, out=difference)
        differs = difference.abs_().mean(dim=-1) > tolerance
        first[differs] = tubelets[differs]
        begins.append(differs)
    return torch.stack(begins, dim=1)


class Rule(NamedTuple):
    """What run lengths are for a model.

    Attributes:
        obstacles: Parts that cannot do with them.
        inexact: Parts for which a token that stands for several is not the same as these.
    """

    obstacles: tuple[str, ...]
    inexact: tuple[str, ...]

    def __str__(self) -> str:
        if self.obstacles:
            return f"impossible: {self.obstacles[0]}"
        if self.inexact:
            return f"approximation: {self.inexact[0]}"
        return "exact for the clip whose still parts are frozen"


def rule_of(backbone: Any) -> Rule:
    """Return what run lengths are for a ``VideoTransformer``."""
    obstacles: list[str] = []
    inexact: list[str] = []
    embed = backbone.embed
    if embed.stride != embed.tubelet or any(embed.padding):
        obstacles.append("tubelets overlap")
    for encoder in backbone.encoders:
        refusals = encoder.refusals
        obstacles += [f"{part} needs tokens in frames" for part in refusals.frames]
        obstacles += [f"{part} cannot count a token several times" for part in refusals.counts]
        if any("t" in table for table in encoder.pos_embed.tables):
            inexact.append("positions in time are those of the first tubelet of a run")
        if encoder.rope is not None and "t" in encoder.rope.axes:
            inexact.append("rotary positions in time are those of the first tubelet of a run")
    return Rule(tuple(obstacles), tuple(inexact))


def check_runs(backbone: Any, tolerance: float) -> None:
    """Raise a ValueError if a ``VideoTransformer`` cannot have run lengths."""
    if not tolerance >= 0:
        raise ValueError(f"the tolerance of still tubelets must be at least 0, got {tolerance}")
    if obstacles := rule_of(backbone).obstacles:
        raise ValueError(
            f"{type(backbone).__name__} cannot compute still tubelets once: {obstacles[0]}; use "
            "joint attention, such as scheme 'spacetime' of ViViT"
        )

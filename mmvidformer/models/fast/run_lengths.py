"""Run lengths: a tubelet that stays as it was is computed once, and counts as many (RLT).

Choudhury et al. 2024 compare each tubelet with the one before it. Here it is compared with the
first of its run, which stands for it: so they never differ by more than the tolerance, however
slowly a picture changes.
"""

import copy
from collections.abc import Callable, Sequence
from math import ceil, prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import l1_loss

from mmvidformer.layers.tokens import Grid, Places, Tokens
from mmvidformer.models.fast.run_rules import check_runs
from mmvidformer.models.fast.wrapping import wrap
from mmvidformer.models.lengths import is_sharded

MOST_TOKENS = 0.95  # of a clip: with more, all are computed, which is exact and as fast
GROUPS = 8  # of the clips of a batch, by their number of runs
ALL_TUBELETS = GROUPS + 1  # number of the group of clips that are computed as they are


class RunLengths(NamedTuple):
    """The runs of equal tubelets of clips (B, 3, T', H', W'), and where each place is in them.

    Attributes:
        kept: The first tubelet of each of N runs. A clip with fewer runs is filled with its first.
        boxes: Their pixels, (B, 1, 1, N, P).
        counts: Lengths of the runs, (B, 1, 1, N); 0: no run.
        run_of_place: Number of the run of each place, (B, T, H, W).
    """

    kept: Places
    boxes: Tensor
    counts: Tensor
    run_of_place: Tensor

    def spread(self, tokens: Tokens) -> Tokens:
        """Give each place the token of its run: (B, P + N, D) to (B, P + T H W, D).

        Tokens of a prefix alone stay.
        """
        context = tokens.context._replace(kept=None, counts=None, rope=None)
        if not context.grid.t:
            return Tokens(tokens.tensor, context)
        _, t, h, w = self.run_of_place.shape
        grid = Grid(t, h, w, context.grid.prefix)
        places = Places(self.run_of_place.flatten(1), context.grid.size).take(tokens.places)
        return Tokens(grid.join(tokens.prefix, places), context._replace(grid=grid))


class Group(NamedTuple):
    """Clips of a batch that are computed together.

    Attributes:
        rows: Their rows of the batch, in order.
        runs: Their runs; None: all is computed.
    """

    rows: list[int]
    runs: RunLengths | None


def compute_still_once(backbone: Any, tolerance: float) -> None:
    """Let a ``VideoTransformer`` compute still tubelets once, up to its ``static``, in place.

    Clips of which tokens are chosen, or dropped in training, are computed as they are.
    """
    check_runs(backbone, tolerance)
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
    """Forward pass of a ``VideoTransformer``, with its runs."""
    if valid is not None or not _has_runs(backbone, kept, counts):
        return run(clip, valid, kept, counts)
    return backbone.pool_features(encode_runs(backbone, clip, prefix_only=True))


def forward_features(
    backbone: Any,
    run: Callable[..., Tokens],
    clip: Tensor,
    outputs: list[Tokens] | None = None,
    kept: Places | None = None,
    counts: Tensor | None = None,
) -> Tokens:
    """``VideoTransformer.forward_features`` with runs."""
    if not _has_runs(backbone, kept, counts):
        return run(clip, outputs, kept, counts)
    return encode_runs(backbone, clip, outputs)


def _has_runs(backbone: Any, kept: Places | None, counts: Tensor | None) -> bool:
    drops = backbone.training and backbone.token_keep < 1
    return backbone.static is not None and kept is None and counts is None and not drops


def encode_runs(
    backbone: Any, clips: Tensor, outputs: list[Tokens] | None = None, prefix_only: bool = False
) -> Tokens:
    """Encode clips whose still tubelets are computed once, up to the ``static`` of the model.

    Args:
        backbone: A ``VideoTransformer`` whose tubelets do not overlap.
        clips: Normalized pixels (B, 3, T', H', W').
        outputs: List to which the tokens after each block are appended.
        prefix_only: See ``layers.tokens.Context``.

    Returns:
        What the encoders return, with the tokens of all places.
    """
    backbone.embed.check(clips)
    groups = find_runs(backbone, clips, backbone.static)
    results: list[list[Tokens]] = []  # of each group: after each block, and at the end
    for rows, runs in groups:
        if runs is None:
            tokens = Tokens.of(backbone.embed(take_rows(clips, rows)), prefix_only=prefix_only)
        else:
            options = dict(kept=runs.kept, counts=runs.counts, prefix_only=prefix_only)
            tokens = Tokens.of(backbone.embed.embed_boxes(runs.boxes), **options)
        blocks: list[Tokens] = []
        for encoder in backbone.encoders:
            tokens = encoder(tokens, None if outputs is None else blocks)
        parts = (*blocks, tokens)
        results.append([part if runs is None else runs.spread(part) for part in parts])
    rows_of_groups = [row for group in groups for row in group.rows]
    *blocks, end = (join_rows(parts, rows_of_groups) for parts in zip(*results, strict=True))
    if outputs is not None:
        for tokens in blocks:
            outputs.append(tokens)
    return end


def join_rows(parts: Sequence[Tokens], rows: Sequence[int]) -> Tokens:
    """Join the tokens of groups of clips, whose rows of the batch are given one after the other."""
    if len(parts) == 1:
        return parts[0]
    order = sorted(range(len(rows)), key=rows.__getitem__)
    tensor = torch.cat([part.tensor for part in parts])[order]
    return Tokens(tensor, parts[0].context._replace(rope=None))


def find_runs(backbone: Any, clips: Tensor, tolerance: float) -> list[Group]:
    """Find the runs of clips.

    No clip depends on the others of its batch: each is in a group of clips that have about as many
    runs. The processes of a sharded model must run equally often, so there all are one group.

    Args:
        backbone: A ``VideoTransformer`` whose tubelets do not overlap.
        clips: Normalized pixels (B, 3, T', H', W').
        tolerance: Largest mean absolute difference of the pixels of a tubelet from those of the
            first of its run. 0: they are equal.

    Returns:
        The groups, by number of runs. The last one may be without runs: the clips that have more
        than 0.95 as many of them as tubelets, also if a sample of their pixels looks so
        (``most_moving``).
    """
    embed, size = backbone.embed, backbone.embed.grid(clips.shape[2:])
    everything = [Group([*range(len(clips))], None)]
    if size[0] == 1 or not len(clips):  # each tubelet begins a run
        return everything
    most = most_moving(backbone)
    moving = share_moving(embed.sample_boxes(clips), tolerance)
    still = [row for row, share in enumerate(moving) if share <= most]
    if not still:
        return everything
    boxes = embed.boxes(take_rows(clips, still))
    begins = begins_run(boxes, tolerance)  # (B, T, H, W)
    numbers = [ALL_TUBELETS] * len(clips)  # of the group of each clip
    for row, count in zip(still, begins.flatten(1).sum(dim=1).tolist(), strict=True):
        numbers[row] = number_of_group(count / prod(size))
    if any(is_sharded(block) for encoder in backbone.encoders for block in encoder.blocks):
        numbers = [max(numbers)] * len(clips)
    groups = []
    for number in sorted({*numbers}):
        rows = [row for row, other in enumerate(numbers) if other == number]
        runs = None
        if number != ALL_TUBELETS:
            places = [still.index(row) for row in rows]
            runs = make_runs(take_rows(boxes, places), take_rows(begins, places))
        groups.append(Group(rows, runs))
    return groups


def number_of_group(share: float) -> int:
    """Return the number of the group of a clip, of which a share of the tubelets begins a run."""
    return ALL_TUBELETS if share > MOST_TOKENS else ceil(share * GROUPS)


def take_rows(tensor: Tensor, rows: Sequence[int]) -> Tensor:
    """Take rows of a tensor (B, ...), each once and in order; all of them need no copy."""
    return tensor if len(rows) == len(tensor) else tensor[rows]


def make_runs(boxes: Tensor, begins: Tensor) -> RunLengths:
    """Make the runs of tubelets (B, T, H, W, P) of those that begin one, (B, T, H, W).

    A place with three tubelets in time, of which the first and the third begin a run, has runs of
    two and one.
    """
    size = begins.shape[1:]
    is_first = begins.flatten(1)  # (B, T H W), as the next two
    numbers = torch.arange(begins[0].numel(), device=begins.device)
    latest = torch.where(begins, numbers.view(size), 0).cummax(dim=1).values
    first_of_place = latest.flatten(1)  # number of the first tubelet of its run
    lengths = torch.zeros_like(first_of_place)
    lengths.scatter_add_(1, first_of_place, torch.ones_like(first_of_place))
    # The first tubelets of runs in their order, as many as the clip with most of them has.
    counts = is_first.sum(dim=1, keepdim=True)
    columns = torch.arange(int(counts.max()), device=begins.device)
    firsts = is_first.sort(dim=1, descending=True, stable=True).indices[:, : len(columns)]
    is_run = columns < counts
    firsts = torch.where(is_run, firsts, 0)
    counts = torch.where(is_run, lengths.take_along_dim(firsts, dim=1), 0)
    run_of_first = is_first.cumsum(dim=1) - 1
    run_of_place = run_of_first.take_along_dim(first_of_place, dim=1).unflatten(1, size)
    kept = Places(firsts, tuple(size))
    return RunLengths(kept, kept.take(boxes), counts[:, None, None].to(boxes.dtype), run_of_place)


def share_computed(groups: Sequence[Group]) -> float:
    """Return the share of the tokens of a batch that is computed."""
    clips = sum(len(group.rows) for group in groups)
    computed = 0.0
    for rows, runs in groups:
        share = 1.0 if runs is None else runs.counts[0].numel() / runs.run_of_place[0].numel()
        computed += share * len(rows)
    return computed / clips if clips else 1.0


def share_moving(samples: Tensor, tolerance: float) -> list[float]:
    """Estimate how many of the tubelets of each clip begin a run.

    This is all that a moving camera costs: a few operations on tensors.

    Args:
        samples: Some pixels of each tubelet, (B, T, H, W, S).
        tolerance: See ``find_runs``.
    """
    differences = l1_loss(samples[:, 1:], samples[:, :-1], reduction="none").mean(dim=-1)
    still = (differences <= tolerance).flatten(1).sum(dim=1).tolist()
    return [1 - count / samples[0, ..., 0].numel() for count in still]


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
        mean = torch.sub(tubelets, first, out=difference).abs_().mean(dim=-1)
        differs = ~(mean <= tolerance)  # also if it is no number
        first[differs] = tubelets[differs]
        begins.append(differs)
    return torch.stack(begins, dim=1)


def without_runs(model: Any) -> Any:
    """Return a model that computes all tubelets: it, or a copy that shares its weights."""
    if all(getattr(part, "static", None) is None for part in model.modules()):
        return model
    tensors = (*model.parameters(), *model.buffers())
    model = copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
    for part in model.modules():
        if hasattr(part, "static"):
            part.static = None
    return model

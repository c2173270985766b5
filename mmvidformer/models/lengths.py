"""Clips that differ in length: those of one length run together, without padding.

Each clip gets the outputs and gradients that it gets alone, whatever a model does over time.
Padding with a weight of 0 (``VideoTransformer.forward``) would not do: positions are stretched to
the length of a clip, and some kernels and all shifts depend on it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError


class ClipList(list):
    """Clips (views, C, T, H, W) of a batch that differ in length, in place of their stack."""

    def __getattr__(self, name: str) -> NoReturn:
        frames = sorted({clip.shape[-3] for clip in self})
        raise AttributeError(
            f"clips of {frames} frames are a list without {name!r}; use clips of one length, or "
            "modes 'loss' and 'predict' of MultiViewRecognizer or RecurrentRecognizer"
        )


def valid_frames(clips: Tensor, valid: Tensor, multiple: int = 1) -> list[Tensor]:
    """Cut clips (B, ..., T, H, W) to their valid frames.

    Args:
        clips: The clips.
        valid: Bool mask (B, T), True for the frames of a clip; they need not be the first ones.
        multiple: Number of frames that the number of valid frames must be a multiple of.

    Raises:
        UserError: If the mask has another shape or type, or too few valid frames or no multiple.
    """
    shape = (clips.shape[0], clips.shape[-3])
    if valid.shape != shape or valid.dtype != torch.bool:
        got = f"{tuple(valid.shape)} of {valid.dtype}"
        raise UserError(f"valid must be a mask (B, T) = {shape} of torch.bool, got {got}")
    valid = valid.cpu()
    for i, count in enumerate(valid.sum(dim=1).tolist()):
        if not count or count % multiple:
            wanted = f"a multiple of the tubelet, {multiple}" if count else "at least 1"
            raise UserError(f"the number of valid frames must be {wanted}; clip {i} has {count}")
    return [clip[..., mask, :, :] for clip, mask in zip(clips, valid, strict=True)]


def group_by_shape(clips: Sequence[Tensor]) -> list[list[int]]:
    """Return the places of the clips of each shape, in the order in which shapes come first."""
    groups: dict[torch.Size, list[int]] = {}
    for place, clip in enumerate(clips):
        groups.setdefault(clip.shape, []).append(place)
    return [*groups.values()]


def run_by_length(run: Callable[[Tensor], Any], clips: Sequence[Tensor]) -> list[Tensor]:
    """Return the output for each clip of a function of stacked clips (N, ...), called per size."""
    outputs: list = [None] * len(clips)
    for rows in group_by_shape(clips):
        stack = torch.stack([clips[row] for row in rows])
        for row, output in zip(rows, run(stack), strict=True):
            outputs[row] = output
    return outputs


def is_sharded(model: nn.Module) -> bool:
    """Whether ``fully_shard`` made the model, whose processes must run it equally often."""
    return any(base.__name__ == "FSDPModule" for base in type(model).__mro__)


def check_unsharded(model: nn.Module) -> None:
    """Raise a UserError for a sharded model."""
    if is_sharded(model):
        raise UserError("clips of different lengths cannot run in a fully sharded model; use DDP")

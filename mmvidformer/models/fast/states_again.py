"""What a step of HORST attends to is put together again in the backward pass, not kept."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvidformer.layers.eager import runs_eagerly
from mmvidformer.models.fast.wrapping import wrap
from mmvidformer.models.horst.layer import HorstLayer
from mmvidformer.models.horst.statt import Entry, States


def build_states_again(model: nn.Module) -> None:
    """Let HORST's layers keep each state once in training, whatever their order, in place.

    A plain layer keeps S states at each step, as a ring: memory of O(T S) for T steps.

    Args:
        model: Any module; what is no ``HorstLayer`` stays.
    """
    for part in model.modules():
        if isinstance(part, HorstLayer):
            wrap(part, "attend_to", attend_to)


def attend_to(
    layer: HorstLayer,
    run: Callable[..., Tensor],
    q: Tensor,
    start: States,
    steps: int,
    entries: list[Entry],
) -> Tensor:
    """``HorstLayer.attend_to``, which the backward pass runs again."""
    if not torch.is_grad_enabled() or not runs_eagerly():
        return run(q, start, steps, entries)
    again = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
    return again(run, q, start, steps, entries)

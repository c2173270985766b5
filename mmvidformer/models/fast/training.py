"""Exact savings for training: ``optimize_for_training``."""

from torch import nn

from mmvidformer.models.fast.flex import attend_in_flex
from mmvidformer.models.fast.folded_fc import fold_fc
from mmvidformer.models.fast.kept_rows import compute_kept_rows
from mmvidformer.models.fast.onednn import mkl_is_slow, multiply_in_onednn
from mmvidformer.models.fast.prefix_only import compute_prefix_only
from mmvidformer.models.fast.recompute import copy_again
from mmvidformer.models.fast.regrouped_once import regroup_once


def optimize_for_training(model: nn.Module) -> None:
    """Let a model compute the same outputs and gradients in less time or memory, in place.

    - Updates that stochastic depth drops are not computed (``kept_rows``), on a CPU.
    - TimeSformer's fc after an attention is multiplied by the projection before it (``folded_fc``).
    - The last block computes the class token alone, if nothing else is read (``prefix_only``).
    - Queries, keys and values are regrouped as one tensor (``regrouped_once``).
    - Keys in many windows, and states of HORST, are copied again, not kept (``recompute``).
    - On a GPU, some masks and scores of all pairs are not in memory (``flex``).
    - Linear layers multiply in oneDNN where MKL is slow (``onednn.mkl_is_slow``).

    Losses and gradients change by rounding only. Weights, their names and hooks stay. The commands
    that train do this (``mmvidformer.FastTrainingHook``).

    Args:
        model: Any module; what is no part of a backbone of this package stays.
    """
    fold_fc(model)
    compute_kept_rows(model)
    compute_prefix_only(model)
    regroup_once(model)
    copy_again(model)
    attend_in_flex(model)
    if mkl_is_slow():
        multiply_in_onednn(model)

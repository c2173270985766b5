"""Exact savings of a model that is only used, not trained: ``optimize_for_inference``.

=============  =================================================================  ================
saving         what happens                                                       where
=============  =================================================================  ================
folded linear  TimeSformer's fc after an attention and the attention's output     TimeSformer
               projection become one linear layer
folded scale   the softmax's ``1 / sqrt(d)`` goes into the projection of queries  softmax attention
class token    where the head reads the class token alone, the last block gives   TimeSformer; ViViT
alone          it alone: no queries, output projection and MLP of the grid        with class token
in place       the MLP's activation writes over its input, which is not read      everywhere
               again
short          on a CPU, sequences of at most 16 keys are attended by plain       softmax attention
sequences      products instead of the fused operator                             over time
dropout gone   dropout layers leave the model, rates become 0                     everywhere
=============  =================================================================  ================

Tokens that are averaged after the last layer norm are all read (ViViT models 3 and 4, feature
fixation): there nothing can be left out.
"""

import copy
import logging
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from mmvidformer.layers import Attention, AttentionSubLayer, DropPath, Encoder, Mlp
from mmvidformer.layers.kernels import LinearKernel, SoftmaxKernel
from mmvidformer.models.feature_fixation import FeatureFixationTransformer
from mmvidformer.models.timesformer import TimeSformer
from mmvidformer.models.vivit import ViViT

logger = logging.getLogger("mmvidformer")

BACKBONES = (FeatureFixationTransformer, TimeSformer, ViViT)
# Backbones that read nothing but the class token of an encoder that has one.
CLASS_TOKEN_READERS = (TimeSformer, ViViT)
# Kernels whose queries do not touch each other, so that some can be left out.
SEPARATE_QUERIES = (LinearKernel, SoftmaxKernel)
# Keys up to which plain products are faster than the fused operator: half its time at 8 keys, equal
# at 24 (1568 tokens, 12 heads of 64, AVX2).
SHORT = 16


def optimize_for_inference(model: nn.Module) -> nn.Module:
    """Make a copy of a model that gives the same outputs with less work.

    The savings are in the table of this module. Products are folded in float64, so that outputs
    change by rounding alone. What was done is logged (logger ``mmvidformer``, level INFO) and
    kept as ``inference_summary`` on the copy. Where nothing but the class token is read,
    ``forward_features`` of the copy gives None for the grid. Weights have other names and values
    than before: load checkpoints first, save those of the original.

    Args:
        model: A backbone of this package, or anything that holds some, such as a recogniser that
            MMAction2 built from a config.

    Returns:
        The copy, in evaluation mode; its ``train()`` raises a RuntimeError. A model that holds
        none of the backbones is given back itself, as it is, with a warning in the log.
    """
    if not any(isinstance(part, BACKBONES) for part in model.modules()):
        logger.warning(
            "%s is left as it is: it holds no backbone that can be optimised for inference, "
            "which are %s",
            type(model).__name__,
            ", ".join(kind.__name__ for kind in BACKBONES),
        )
        return model
    model = copy.deepcopy(model)
    summary = []
    for part in [part for part in model.modules() if isinstance(part, BACKBONES)]:
        summary += [f"{type(part).__name__}: {line}" for line in _optimize(part)]
        part.train = partial(_refuse_training, part)
    if dropped := _remove_dropout(model):
        summary.append(f"{type(model).__name__}: {dropped} dropout layers removed")
    model.eval()
    model.train = partial(_refuse_training, model)
    model.inference_summary = tuple(summary)
    for line in summary or [f"{type(model).__name__}: nothing to save"]:
        logger.info("%s", line)
    return model


def _refuse_training(model: nn.Module, mode: bool = True) -> nn.Module:
    if mode:
        raise RuntimeError(
            f"this {type(model).__name__} is optimised for inference and cannot be trained: its "
            "layers are folded and its dropout is gone; train the model that it was made from"
        )
    return type(model).train(model, False)


@torch.no_grad()
def _optimize(backbone: nn.Module) -> Iterator[str]:
    """Change a backbone; say what was changed."""
    sublayers = [part for part in backbone.modules() if isinstance(part, AttentionSubLayer)]
    folded = [sublayer for sublayer in sublayers if isinstance(sublayer.fc, nn.Linear)]
    for sublayer in folded:
        sublayer.attn.proj, sublayer.fc = _fold(sublayer.attn.proj, sublayer.fc), nn.Identity()
    if folded:
        yield f"{len(folded)} fcs folded into the output projection before them"

    scaled = [sublayer.attn for sublayer in sublayers if _scale_folds(sublayer.attn)]
    for attention in scaled:
        _fold_scale(attention)
    if scaled:
        yield f"scale of queries folded into the projection of {len(scaled)} attentions"

    if isinstance(backbone, CLASS_TOKEN_READERS):
        for encoder in backbone.modules():
            if isinstance(encoder, Encoder) and _may_leave_grid_out(encoder):
                encoder.cls_only = True
                yield "the last block gives the class token alone"

    for part in backbone.modules():
        if isinstance(part, DropPath):
            part.rate = 0.0
        elif isinstance(part, SoftmaxKernel):
            part.dropout, part.short = 0.0, SHORT
        elif isinstance(part, Mlp) and isinstance(part.act, nn.GELU):
            part.act = _GeluInPlace(part.act.approximate)


class _GeluInPlace(nn.GELU):
    """Spares the system a fresh tensor as large as the hidden layer, page by page."""

    def forward(self, input: Tensor) -> Tensor:
        if torch.is_grad_enabled() and input.requires_grad:
            return super().forward(input)
        return torch.ops.aten.gelu_(input, approximate=self.approximate)


def _fold(first: nn.Linear, second: nn.Linear) -> nn.Linear:
    """The layer that equals ``second`` after ``first``, in their type."""
    weight = second.weight.double() @ first.weight.double()
    bias = 0.0 if second.bias is None else second.bias.double()
    if first.bias is not None:
        bias = bias + second.weight.double() @ first.bias.double()
    folded = nn.utils.skip_init(
        nn.Linear,
        first.in_features,
        second.out_features,
        bias=isinstance(bias, torch.Tensor),
        device=first.weight.device,
        dtype=first.weight.dtype,
    )
    folded.weight.copy_(weight)
    if folded.bias is not None:
        folded.bias.copy_(bias)
    return folded


def _scale_folds(attention: Attention) -> bool:
    # A gate would read the queries, and a feature map need not be homogeneous.
    return isinstance(attention.kernel, SoftmaxKernel) and not attention.prepare


def _fold_scale(attention: Attention) -> None:
    queries = slice(0, attention.qkv.in_features)
    attention.qkv.weight[queries] *= attention.kernel.scale
    if attention.qkv.bias is not None:
        attention.qkv.bias[queries] *= attention.kernel.scale
    attention.kernel.scale = 1.0


def _may_leave_grid_out(encoder: Encoder) -> bool:
    kernels = [sublayer.attn.kernel for sublayer in encoder.blocks[-1].sublayers.values()]
    return encoder.cls_token is not None and all(
        isinstance(kernel, SEPARATE_QUERIES) for kernel in kernels
    )


def _remove_dropout(model: nn.Module) -> int:
    layers = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.Dropout)
    ]
    for parent, name in layers:
        setattr(parent, name, nn.Identity())
    return len(layers)

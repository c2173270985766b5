"""Exact savings for inference: ``optimize_for_inference``."""

import copy
import logging
from functools import partial

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers import (
    Attention,
    AttentionSubLayer,
    DropPath,
    LayerScale,
    Mlp,
    TransformerBlock,
)
from mmvidformer.layers.kernels import SoftmaxKernel
from mmvidformer.layers.linear import LoraLinear, QueryValueBias, has_hooks, is_plain
from mmvidformer.models.fast.cpu_attention import attend_on_cpu
from mmvidformer.models.fast.flex import attend_in_flex
from mmvidformer.models.fast.int8 import round_to_int8
from mmvidformer.models.fast.onednn import CpuLinear, feed_forward
from mmvidformer.models.fast.prefix_only import compute_prefix_only
from mmvidformer.models.fast.regrouped_once import regroup_once
from mmvidformer.models.video_transformer import VideoTransformer

logger = logging.getLogger("mmvidformer")


def optimize_for_inference(
    model: nn.Module, share_weights: bool = False, int8: bool = False
) -> nn.Module:
    """Make a copy of a model that gives the same outputs with less computation.

    - TimeSformer's fc after an attention is folded into the output projection before it, and a
      layer scale into the linear layer before it.
    - If only the class token is read, the last block computes no output projection and MLP of the
      places (``models.fast.prefix_only``).
    - Queries, keys and values are regrouped as one tensor (``models.fast.regrouped_once``).
    - On a GPU, some masks and scores of all pairs are not in memory (``models.fast.flex``).
    - Dropout and stochastic depth are removed, and LoRA is merged into the weights.
    - On a CPU, linear layers run in oneDNN, with the activation if it comes next, unless MKL is
      faster (``models.fast.onednn.mkl_is_fast``). For bfloat16, a copy of the weights is kept, and
      attention multiplies matrices (``models.fast.cpu_attention``).

    Weights are folded in float64, so outputs change by rounding only. Names and values of the
    weights change: load checkpoints first, and save those of the original. Hooks, wrappers (such as
    LoRA) and quantizers of linear layers take effect before and after, but wrap folded projections
    before; a layer that has one is left as it is.

    Args:
        model: A backbone of this package, or a module that contains some, such as a recognizer that
            MMAction2 built from a config.
        share_weights: Whether the copy shares the weights that are not folded, which saves memory.
            The model must not change then.
        int8: Whether linear layers of backbones, and of blocks in a head, multiply in 8 bits
            (``models.fast.int8``), and attention of many tokens in bfloat16, on a CPU. Outputs
            change by more than rounding then (``models.fast.int8.layer_errors``). Memory is saved
            once the model itself is freed.

    Returns:
        The copy, in evaluation mode; its ``train()`` raises a RuntimeError. A model without such a
        backbone is returned itself, unchanged, with a warning in the log.

    Raises:
        UserError: If ``int8`` is not possible on the device of the model, or the model has no such
            backbone.
    """
    if not any(isinstance(part, VideoTransformer) for part in model.modules()):
        if int8:
            raise UserError(f"int8 is for a VideoTransformer, got {type(model).__name__}")
        logger.warning(
            "%s is returned unchanged: it contains no VideoTransformer (ViViT, TimeSformer, ...)",
            type(model).__name__,
        )
        return model
    shared = (*model.parameters(), *model.buffers()) if share_weights else ()
    model = copy.deepcopy(model, {id(tensor): tensor for tensor in shared})
    for part in model.modules():
        if isinstance(part, Attention):
            part.proj_drop = None
        elif isinstance(part, Mlp):
            for name in {"hidden_drop", "drop"} & part._modules.keys():
                delattr(part, name)
    for name, part in list(model.named_modules()):
        if isinstance(part, nn.Dropout):
            model.set_submodule(name, nn.Identity())
    for part in model.modules():
        if isinstance(part, VideoTransformer):
            compute_prefix_only(part)
    _optimize(model)
    if int8:
        round_to_int8(model)
    attend_on_cpu(model, int8)
    model.eval()
    for part in model.modules():
        if isinstance(part, VideoTransformer) or part is model:
            part.train = partial(_refuse_training, part)  # type: ignore[method-assign]
    return model


def _refuse_training(model: nn.Module, mode: bool = True) -> nn.Module:
    if mode:
        raise RuntimeError(
            f"this {type(model).__name__} is optimized for inference and cannot be trained, as its "
            "layers are folded and its dropout is removed; train the original model"
        )
    return type(model).train(model, False)


def _optimize(model: nn.Module) -> None:
    """Change all layers of a model in place: of its backbones, and of heads that pool by blocks."""
    for name, layer in list(model.named_modules()):
        if isinstance(layer, LoraLinear) and not has_hooks(layer) and "forward" not in vars(layer):
            layer = layer.merged()
            model.set_submodule(name, layer)
        if is_plain(layer, QueryValueBias):
            model.set_submodule(name, layer.with_full_bias())
    for part in list(model.modules()):
        if isinstance(part, AttentionSubLayer):
            if part.gate is not None and part.fc and is_plain(part.fc, nn.Linear):
                _multiply(part.fc, part.gate.detach().double().tanh())
                part.gate = None
            for name in ("fc", "scale"):
                after = getattr(part, name)
                plain = after and (is_plain(after, nn.Linear) or is_plain(after, LayerScale))
                if plain and is_plain(part.attn.proj, nn.Linear):
                    _fold(after, part.attn.proj)
                    setattr(part, name, None)
                elif after is not None:
                    break  # a layer after one that is left does not commute with it
        elif isinstance(part, TransformerBlock) and part.scale and is_plain(part.scale, LayerScale):
            if isinstance(part.mlp, Mlp) and is_plain(part.mlp.fc2, nn.Linear):
                _fold(part.scale, part.mlp.fc2)
                part.scale = None
        elif isinstance(part, DropPath):
            part.rate = 0.0
        elif isinstance(part, SoftmaxKernel):
            part.dropout = 0.0
        elif is_plain(part, Mlp):
            part.forward = partial(feed_forward, part)  # type: ignore[method-assign]
        elif is_plain(part, nn.Linear):
            part.forward = CpuLinear(part, frozen=True)  # type: ignore[method-assign]
    regroup_once(model)
    attend_in_flex(model)


@torch.no_grad()
def _fold(after: nn.Linear | LayerScale, proj: nn.Linear) -> None:
    """Let ``proj`` compute, with new weights, what it and the layer after it compute."""
    both = (*after.parameters(), *proj.parameters())
    *outer, weight, bias = (x.cpu().double() for x in both)  # Apple's GPUs lack float64
    if len(outer) == 1:
        weight, bias = outer[0][:, None] * weight, outer[0] * bias
    else:
        weight, bias = outer[0] @ weight, outer[0] @ bias + outer[1]
    _replace_weights(proj, weight, bias)


def _multiply(layer: nn.Linear, factor: Tensor) -> None:
    """Multiply the output of a layer by a number."""
    weight, bias = (x.detach().cpu().double() * factor.cpu() for x in (layer.weight, layer.bias))
    _replace_weights(layer, weight, bias)


def _replace_weights(layer: nn.Linear, weight: Tensor, bias: Tensor) -> None:
    for name, value in {"weight": weight, "bias": bias}.items():
        old = getattr(layer, name)
        setattr(layer, name, nn.Parameter(value.to(old), old.requires_grad))

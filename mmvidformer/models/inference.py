"""Exact savings for a model that is only used for inference: ``optimize_for_inference``."""

import copy
import logging
from collections.abc import Iterator
from functools import cache, partial

import torch
from torch import Tensor, nn

from mmvidformer.layers import AttentionSubLayer, DropPath, Encoder, Mlp
from mmvidformer.layers.kernels import LinearKernel, SoftmaxKernel
from mmvidformer.models.video_transformer import VideoTransformer

logger = logging.getLogger("mmvidformer")

# Kernels that treat each query on its own, so that some can be omitted.
SEPARATE_QUERIES = (LinearKernel, SoftmaxKernel)
ONEDNN = torch.ops.mkldnn


def optimize_for_inference(model: nn.Module) -> nn.Module:
    """Make a copy of a model that gives the same outputs with less computation.

    - TimeSformer's fc after an attention is folded into the output projection before it, and the
      scale of softmax attention into the query projection.
    - If only the class token is read, the last block computes no queries, output projection and MLP
      of the grid, and ``forward_features`` of the copy returns None for it.
    - Dropout and stochastic depth are removed.
    - On a CPU, linear layers run in oneDNN, with the activation if it comes next. For bfloat16, a
      copy of the weights is kept.

    Weights are folded in float64, so outputs change by rounding only. What was done is logged
    (logger ``mmvidformer``, level INFO). Names and values of the weights change: load checkpoints
    first, and save those of the original.

    Args:
        model: A backbone of this package, or a module that contains some, such as a recognizer that
            MMAction2 built from a config.

    Returns:
        The copy, in evaluation mode; its ``train()`` raises a RuntimeError. A model without such a
        backbone is returned itself, unchanged, with a warning in the log.
    """
    name = type(model).__name__
    if not any(isinstance(part, VideoTransformer) for part in model.modules()):
        logger.warning(
            "%s is returned unchanged: it contains no VideoTransformer (ViViT, TimeSformer, ...)",
            name,
        )
        return model
    model = copy.deepcopy(model)
    summary = []
    for part in [part for part in model.modules() if isinstance(part, VideoTransformer)]:
        with torch.no_grad():
            summary += [f"{type(part).__name__}: {line}" for line in _optimize(part)]
        _forbid_training(part)
    dropouts = [path for path, part in model.named_modules() if isinstance(part, nn.Dropout)]
    for path in dropouts:
        model.set_submodule(path, nn.Identity())
    if dropouts:
        summary.append(f"{name}: {len(dropouts)} dropout layers removed")
    model.eval()
    _forbid_training(model)
    for line in summary or [f"{name}: nothing to save"]:
        logger.info("%s", line)
    return model


def _forbid_training(model: nn.Module) -> None:
    model.train = partial(_refuse_training, model)  # type: ignore[method-assign]  # this one only


def _refuse_training(model: nn.Module, mode: bool = True) -> nn.Module:
    if mode:
        raise RuntimeError(
            f"this {type(model).__name__} is optimized for inference and cannot be trained, as its "
            "layers are folded and its dropout is removed; train the original model"
        )
    return type(model).train(model, False)


def _optimize(backbone: VideoTransformer) -> Iterator[str]:
    """Change a backbone in place and describe each change."""
    folded = scaled = 0
    for sublayer in backbone.modules():
        if not isinstance(sublayer, AttentionSubLayer):
            continue
        attention, fc = sublayer.attn, sublayer.fc
        if isinstance(fc, nn.Linear):
            attention.proj, sublayer.fc = _fold(attention.proj, fc), nn.Identity()
            folded += 1
        kernel = attention.kernel
        # A gate would read the queries.
        if isinstance(kernel, SoftmaxKernel) and not attention.prepare:
            queries = slice(0, attention.qkv.in_features)
            attention.qkv.weight[queries] *= kernel.scale
            attention.qkv.bias[queries] *= kernel.scale
            kernel.scale = 1.0
            scaled += 1
    if folded:
        yield f"{folded} fcs folded into the output projections before them"
    if scaled:
        yield f"scale folded into the query projections of {scaled} attentions"

    for part in list(backbone.modules()):
        if isinstance(part, Encoder):
            last = [m for m in part.blocks[-1].modules() if isinstance(m, AttentionSubLayer)]
            separate = all(isinstance(m.attn.kernel, SEPARATE_QUERIES) for m in last)
            if part.cls_token is not None and separate and not part.passes_grid:
                part.cls_only = True
                yield "the last block computes the class token only"
        elif isinstance(part, DropPath):
            part.rate = 0.0
        elif isinstance(part, SoftmaxKernel):
            part.dropout = 0.0
        elif isinstance(part, Mlp) and isinstance(part.depthwise, nn.Identity):
            if isinstance(part.act, nn.GELU):  # not yet optimized
                part.fc1, part.act = CpuLinear(part.fc1, part.act), nn.Identity()
    for name, part in list(backbone.named_modules()):
        if type(part) is nn.Linear:
            backbone.set_submodule(name, CpuLinear(part))


class CpuLinear(nn.Linear):
    """A linear layer that runs in oneDNN on a CPU without gradients, together with a GELU after it.

    PyTorch multiplies float32 matrices in MKL, which is slower on processors of AMD, and for
    bfloat16 it casts and reorders the weights in each call.

    Args:
        linear: Layer whose parameters it takes over.
        act: Activation after it.
    """

    def __init__(self, linear: nn.Linear, act: nn.GELU | None = None) -> None:
        super().__init__(linear.in_features, linear.out_features, device="meta")
        self.weight, self.bias, self.act = linear.weight, linear.bias, act
        self._prepared: tuple | None = None  # version and type of the weights, and their copies

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., in_features) to (..., out_features)."""
        # Compilers choose their own matmuls.
        dtype = None if torch.compiler.is_compiling() else _onednn_type(input, self.weight)
        if dtype is None:
            out = super().forward(input)
            return out if self.act is None else self.act(out)
        act = ("none", "") if self.act is None else ("gelu", self.act.approximate)
        weight, bias = self._weights(dtype)
        return ONEDNN._linear_pointwise(input.to(dtype), weight, bias, act[0], [], act[1])

    def _weights(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        if dtype == torch.float32:  # a copy would be as large as the weights and save little
            return self.weight, self.bias
        versions = (0 if x.is_inference() else x._version for x in (self.weight, self.bias))
        key = (dtype, self.weight.data_ptr(), *versions)
        if self._prepared is None or self._prepared[0] != key:
            weight = ONEDNN._reorder_linear_weight(self.weight.to(dtype), None)
            self._prepared = key, weight, self.bias.to(dtype)
        return self._prepared[1:]

    def __getstate__(self) -> dict:
        # Tensors in oneDNN's layout cannot be copied or saved.
        return {**self.__dict__, "_prepared": None}


def _onednn_type(input: Tensor, weight: Tensor) -> torch.dtype | None:
    """Return the type in which oneDNN multiplies the two, None if it does not."""
    if input.device.type != "cpu" or torch.is_grad_enabled():
        return None
    autocast = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu") if autocast else input.dtype
    known = {dtype, input.dtype, weight.dtype} <= _onednn_types()
    return dtype if known and (autocast or input.dtype == weight.dtype) else None


@cache
def _onednn_types() -> frozenset[torch.dtype]:
    """Return the types that oneDNN multiplies on this processor."""
    if not (torch.backends.mkldnn.is_available() and hasattr(ONEDNN, "_linear_pointwise")):
        return frozenset()
    fast = ONEDNN._is_mkldnn_bf16_supported()
    return frozenset({torch.float32, torch.bfloat16} if fast else {torch.float32})


def _fold(first: nn.Linear, second: nn.Linear) -> nn.Linear:
    """Return the linear layer that equals ``second`` after ``first``, in their type."""
    folded = copy.deepcopy(second)
    weight = second.weight.double()
    folded.weight.copy_(weight @ first.weight.double())
    folded.bias.copy_(weight @ first.bias.double() + second.bias.double())
    return folded

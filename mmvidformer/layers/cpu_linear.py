"""Linear layers in oneDNN on a CPU; PyTorch multiplies in MKL, which is slower on AMD's."""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from mmvidformer.layers.projection import QueryValueBias

ONEDNN = torch.ops.mkldnn


def optimize_for_training(model: nn.Module) -> None:
    """Let the linear layers of a model multiply in oneDNN on a CPU, in place.

    For float32, with gradients: losses and gradients change by rounding only, and cannot be
    differentiated twice. Weights, their names and hooks stay, and so does what a compiler or
    another device computes. Layers that something wraps, such as LoRA, are left as they are.

    Args:
        model: Any module.
    """
    for part in model.modules():
        if type(part) in (nn.Linear, QueryValueBias) and "forward" not in vars(part):
            part.forward = CpuLinear(part)  # type: ignore[arg-type]


class CpuLinear:
    """Forward pass of a linear layer in oneDNN on a CPU.

    For bfloat16, which PyTorch multiplies there too, but casts and reorders the weights in each
    call, a copy of the weights is kept, if no gradients are needed. It replaces the method of a
    layer, not the layer, which others may wrap, hook or quantize as before.
    """

    def __init__(self, linear: nn.Linear) -> None:
        self.linear = linear
        self._prepared: tuple | None = None  # version and type of the weights, and their copies

    def __call__(self, input: Tensor, act: nn.GELU | None = None) -> Tensor:
        """Map (..., in_features) to (..., out_features), and apply a GELU."""
        # Compilers choose their own matmuls.
        compiling = torch.compiler.is_compiling()
        dtype = None if compiling else _onednn_type(input, self.linear.weight)
        if dtype is None:
            out = type(self.linear).forward(self.linear, input)
            return out if act is None else act(out)
        name, kind = ("none", "") if act is None else ("gelu", act.approximate)
        weight, bias = self._weights(dtype)
        if torch.is_grad_enabled():
            out = _Linear.apply(input, weight, bias)
            return out if act is None else act(out)
        return ONEDNN._linear_pointwise(input.to(dtype), weight, bias, name, [], kind)

    def _weights(self, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        layer = self.linear
        weight: Tensor = layer.weight
        bias = layer.full_bias() if isinstance(layer, QueryValueBias) else layer.bias
        if dtype == torch.float32:  # a copy would be as large as the weights and save little
            return weight, bias
        versions = (0 if x is None or x.is_inference() else x._version for x in (weight, bias))
        key = (dtype, weight.data_ptr(), *versions)
        if self._prepared is None or self._prepared[0] != key:
            copied = ONEDNN._reorder_linear_weight(weight.to(dtype), None)
            self._prepared = key, copied, None if bias is None else bias.to(dtype)
        return self._prepared[1:]

    def __getstate__(self) -> dict:
        # Tensors in oneDNN's layout cannot be copied or saved.
        return {**self.__dict__, "_prepared": None}


class _Linear(torch.autograd.Function):
    """``F.linear`` of float32, whose three matrix products run in oneDNN."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        # A frozen layer needs no input, as in PyTorch.
        ctx.save_for_backward(input if ctx.needs_input_grad[1] else None, weight)
        return _product(input, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        input, weight = ctx.saved_tensors
        needs_input, needs_weight, needs_bias = ctx.needs_input_grad
        rows = grad.reshape(-1, grad.shape[-1])
        return (
            _product(grad, weight.t()) if needs_input else None,
            _product(rows.t(), input.reshape(-1, input.shape[-1]).t()) if needs_weight else None,
            rows.sum(dim=0) if needs_bias else None,
        )


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return ONEDNN._linear_pointwise(rows, weight, bias, "none", [], "")


def _onednn_type(input: Tensor, weight: Tensor) -> torch.dtype | None:
    """Return the type in which oneDNN multiplies the two, None if it does not."""
    if input.device.type != "cpu" or type(weight) is not nn.Parameter or not input.numel():
        return None
    if input.shape[-1] != weight.shape[-1]:  # PyTorch's error tells the shapes
        return None
    autocast = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu") if autocast else input.dtype
    types, known = {dtype, input.dtype, weight.dtype}, onednn_types()
    if torch.is_grad_enabled():
        if autocast or not (input.requires_grad or weight.requires_grad):
            return None
        known = known & {torch.float32}
    return dtype if types <= known and (autocast or len(types) == 1) else None


@cache
def onednn_types() -> frozenset[torch.dtype]:
    """Return the types that oneDNN multiplies on this processor."""
    if not (torch.backends.mkldnn.is_available() and hasattr(ONEDNN, "_linear_pointwise")):
        return frozenset()
    fast = ONEDNN._is_mkldnn_bf16_supported()
    return frozenset({torch.float32, torch.bfloat16} if fast else {torch.float32})

"""Linear layers that multiply in oneDNN on a CPU, where MKL, PyTorch's own way, is slow."""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mmvidformer.layers import Mlp
from mmvidformer.layers.eager import runs_eagerly
from mmvidformer.layers.linear import QueryValueBias, full_bias, has_hooks, is_plain
from mmvidformer.models.fast.int8 import Int8Linear
from mmvidformer.processor import processor_flags, read_facts

ONEDNN = torch.ops.mkldnn
FEW_ROWS = 64  # tokens


def mkl_is_slow() -> bool:
    """Return whether PyTorch multiplies in MKL on a processor of AMD that has AVX-512.

    There, a training step of TimeSformer takes 0.62 of the time in oneDNN. On an Intel Xeon, and on
    AMD's processors without AVX-512, it takes longer (reports/speed.md).
    """
    return _mkl_on_amd() and "avx512f" in processor_flags()


def mkl_is_fast() -> bool:
    """Return whether PyTorch multiplies in MKL on a processor of AMD that lacks AVX-512.

    There, inference of TimeSformer takes 0.8 of the time in MKL. On an Intel Xeon both take as long
    (reports/speed.md).
    """
    return _mkl_on_amd() and "avx512f" not in processor_flags()


def _mkl_on_amd() -> bool:
    on_amd = "AuthenticAMD" in read_facts().get("vendor_id", "")
    return torch.backends.mkl.is_available() and on_amd


def multiply_in_onednn(model: nn.Module) -> None:
    """Let the linear layers of a model multiply in oneDNN on a CPU, in place.

    For float32, with gradients: losses and gradients change by rounding only. Weights, their names
    and hooks stay, and so does what compilers, transforms of ``torch.func`` or other devices
    compute. Layers that something wraps, such as LoRA, are left as they are.

    Args:
        model: Any module.
    """
    for layer in model.modules():
        if type(layer) in (nn.Linear, QueryValueBias) and "forward" not in vars(layer):
            layer.forward = CpuLinear(layer)  # type: ignore[arg-type]


class CpuLinear:
    """Forward pass of a linear layer in oneDNN on a CPU.

    It replaces the method of a layer, not the layer, which others may wrap, hook or quantize as
    before.

    Args:
        linear: The layer.
        frozen: Whether the weights stay as they are. Then a copy of them is kept for bfloat16,
            which PyTorch multiplies in oneDNN too, but casts and reorders the weights in each call.
            For float32, whose copy is as large as the weights, it is kept once the layer maps
            ``FEW_ROWS`` or less, as in streams of small frames: reordering takes a third there, a
            tenth of 256 rows. The copy would miss changes of ``weight.data``, such as those of
            MMEngine's EMAHook.
    """

    is_linear = True  # for ``layers.linear.is_plain``

    def __init__(self, linear: nn.Linear, frozen: bool = False) -> None:
        self.linear, self.frozen = linear, frozen
        self._prepared: tuple | None = None  # version and type of the weights, and their copies

    def __call__(self, input: Tensor, act: nn.GELU | None = None) -> Tensor:
        """Map (..., in_features) to (..., out_features), and apply a GELU."""
        dtype = _onednn_type(input, self.linear.weight) if runs_eagerly() else None
        if dtype is None or (dtype != torch.float32 and not self.frozen):
            out = type(self.linear).forward(self.linear, input)
            return out if act is None else act(out)
        few = input.numel() <= FEW_ROWS * input.shape[-1] and not torch.is_grad_enabled()
        packed = dtype != torch.float32 or self.frozen and few
        weight, bias = self._weights(dtype, packed)
        if torch.is_grad_enabled():
            out = OneDnnLinear.apply(input, weight, bias)
            return out if act is None else act(out)
        input = input.to(dtype)
        if act is None:
            return _multiply(input, weight, bias)
        return ONEDNN._linear_pointwise(input, weight, bias, "gelu", [], act.approximate)

    def _weights(self, dtype: torch.dtype, packed: bool) -> tuple[Tensor, Tensor | None]:
        layer = self.linear
        weight: Tensor = layer.weight
        bias = full_bias(layer.bias) if isinstance(layer, QueryValueBias) else layer.bias
        if not packed:
            return weight, bias
        versions = (0 if x is None or x.is_inference() else x._version for x in (weight, bias))
        key = (dtype, weight.data_ptr(), *versions)
        prepared = self._prepared  # threads may share the layer
        if prepared is None or prepared[0] != key:
            copied = ONEDNN._reorder_linear_weight(weight.to(dtype), None)
            prepared = key, copied, None if bias is None else bias.to(dtype)
            self._prepared = prepared
        return prepared[1:]

    def __getstate__(self) -> dict:
        # Tensors in oneDNN's layout cannot be copied or saved.
        return {**self.__dict__, "_prepared": None}


class OneDnnLinear(torch.autograd.Function):
    """``F.linear`` of float32, whose three matrix products run in oneDNN."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Multiply."""
        # A frozen layer needs no input, as in PyTorch.
        ctx.save_for_backward(input if ctx.needs_input_grad[1] else None, weight)
        return _multiply(input, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients; those for a second derivative are computed by PyTorch."""
        multiply = linear if torch.is_grad_enabled() else _multiply
        input, weight = ctx.saved_tensors
        needs_input, needs_weight, needs_bias = ctx.needs_input_grad
        rows = grad.reshape(-1, grad.shape[-1])
        return (
            multiply(grad, weight.t()) if needs_input else None,
            multiply(rows.t(), input.reshape(-1, input.shape[-1]).t()) if needs_weight else None,
            rows.sum(dim=0) if needs_bias else None,
        )


def feed_forward(mlp: Mlp, x: Tensor) -> Tensor:
    """Forward pass of an MLP (..., D) whose first layer applies the activation, if it is a GELU."""
    first = vars(mlp.fc1).get("forward", mlp.fc1)
    activation_follows = not hasattr(mlp, "depthwise") and not has_hooks(mlp.fc1)
    if (
        isinstance(first, CpuLinear | Int8Linear)
        and activation_follows
        and is_plain(mlp.act, nn.GELU)
    ):
        return mlp.fc2(first(x, mlp.act))
    return Mlp.forward(mlp, x)


def _multiply(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return ONEDNN._linear_pointwise(rows, weight, bias, "none", [], "")


def _onednn_type(input: Tensor, weight: Tensor) -> torch.dtype | None:
    """Return the type in which oneDNN multiplies the two, None if it does not."""
    # A weight that is computed, as by ``torch.func.functional_call``, has no copy to keep.
    weight_types = (nn.Parameter, Tensor) if torch.is_grad_enabled() else (nn.Parameter,)
    plain = input.device.type == "cpu" and type(weight) in weight_types and input.numel()
    if not plain or input.shape[-1] != weight.shape[-1]:  # PyTorch's error tells the shapes
        return None
    autocast = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu") if autocast else input.dtype
    types, fast_types = {dtype, input.dtype, weight.dtype}, onednn_types()
    if torch.is_grad_enabled():
        if autocast or not (input.requires_grad or weight.requires_grad):
            return None
        fast_types = fast_types & {torch.float32}
    elif mkl_is_fast():
        fast_types = fast_types - {torch.float32}
    return dtype if types <= fast_types and (autocast or len(types) == 1) else None


@cache
def onednn_types() -> frozenset[torch.dtype]:
    """Return the types that oneDNN multiplies on this processor."""
    if not (torch.backends.mkldnn.is_available() and hasattr(ONEDNN, "_linear_pointwise")):
        return frozenset()
    has_bfloat16 = ONEDNN._is_mkldnn_bf16_supported()
    return frozenset({torch.float32, torch.bfloat16} if has_bfloat16 else {torch.float32})


def multiplies_bfloat16() -> bool:
    """Return whether oneDNN and the processor itself multiply bfloat16."""
    return torch.bfloat16 in onednn_types() and "avx512_bf16" in processor_flags()

"""Linear layers: a bias without that of the keys, low-rank adaptation, and oneDNN on a CPU."""

import copy
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

OWN = ("lora_a", "lora_b", "lora_scale")
ONEDNN = torch.ops.mkldnn


class QueryValueBias(nn.Linear):
    """Projection to queries, keys and values with a bias of queries and values alone (BEiT).

    Args:
        dim: Token width D; the weight is (3 D, D), the bias (2 D,).
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim, 3 * dim)
        self.bias = nn.Parameter(torch.zeros(2 * dim))

    def full_bias(self) -> Tensor:
        """Return the bias (3 D,) with zeros for the keys."""
        return full_bias(self.bias)

    def with_full_bias(self) -> nn.Linear:
        """Return an ordinary layer that computes the same."""
        layer = nn.Linear(self.in_features, self.out_features, device="meta")
        layer.weight, layer.bias = self.weight, nn.Parameter(self.full_bias().detach())
        return layer

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., D) to (..., 3 D)."""
        return linear(input, self.weight, full_bias(self.bias))


def full_bias(bias: Tensor) -> Tensor:
    """Map a bias (2 D,) of queries and values to (3 D,), with zeros for the keys."""
    query, value = bias.chunk(2)
    return torch.cat([query, torch.zeros_like(query), value])


class LoraLinear(nn.Linear):
    """A linear layer and the product of two thin matrices, ``W x + b + scale B (A x)``.

    ``W`` and ``b`` keep their names and are not trained. Where a state dict has no ``A`` and ``B``,
    as those of the plain layer, ``B`` becomes zero.

    Args:
        layer: The layer, whose weights are shared. The forward pass of its class is ``W x + b``,
            and reads attributes alone.
        rank: Rank of the update.
        alpha: The update is multiplied by alpha / rank.
    """

    def __init__(self, layer: nn.Linear, rank: int, alpha: float) -> None:
        nn.Module.__init__(self)
        _copy_attributes(layer, self)
        self.requires_grad_(False)
        self.plain = type(layer)
        weight = layer.weight
        self.lora_a = nn.Parameter(weight.new_empty(rank, layer.in_features))
        self.lora_b = nn.Parameter(weight.new_zeros(layer.out_features, rank))
        self.lora_scale: Tensor
        self.register_buffer("lora_scale", weight.new_tensor(alpha / rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))  # as in the authors' code

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., in_features) to (..., out_features)."""
        inner = self.lora_scale * linear(input, self.lora_a)
        return self.plain.forward(self, input) + linear(inner, self.lora_b)

    def merged(self) -> nn.Linear:
        """Return the plain layer with the same output."""
        layer = self.plain.__new__(self.plain)
        nn.Module.__init__(layer)
        _copy_attributes(self, layer)
        state = self.state_dict()
        merge_lora(state)
        layer.weight = nn.Parameter(state["weight"])
        for name in (*OWN, "plain"):
            delattr(layer, name)
        return layer

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args: Any) -> None:
        if f"{prefix}weight" in state_dict and f"{prefix}lora_b" not in state_dict:
            plain = self.lora_a, torch.zeros_like(self.lora_b), self.lora_scale
            state_dict.update({prefix + name: x for name, x in zip(OWN, plain, strict=True)})
        super()._load_from_state_dict(state_dict, prefix, *args)


def _copy_attributes(source: nn.Module, target: nn.Module) -> None:
    """Give a module the attributes, weights and hooks of another one."""
    for name, value in vars(source).items():
        # Tables, such as those of weights and hooks, are their own, what is in them is shared.
        vars(target)[name] = copy.copy(value) if isinstance(value, dict | set) else value


def add_lora(
    model: nn.Module, rank: int = 8, alpha: float = 16.0, layers: Sequence[str] = ("qkv", "proj")
) -> None:
    """Replace linear layers of a model by ``LoraLinear`` (Hu et al. 2022), in place.

    Args:
        model: A model; its other parameters are trained as before.
        rank: Rank of the updates.
        alpha: The updates are multiplied by alpha / rank.
        layers: Last parts of the names of the layers, such as ``'qkv'``, ``'proj'``, ``'fc1'``.

    Raises:
        KeyError: If the model has no linear layer of such a name.
        ValueError: If the rank is less than 1, or one of the layers is a ``LoraLinear`` already.
    """
    if rank < 1:
        raise ValueError(f"the rank must be at least 1, got {rank}")
    linears = {name: part for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    known = {name.rpartition(".")[2] for name in linears}
    if unknown := [name for name in layers if name not in known]:
        raise KeyError(f"linear layers for LoRA are {', '.join(sorted(known))}; got {unknown[0]!r}")
    chosen = {name: part for name, part in linears.items() if name.rpartition(".")[2] in layers}
    for name, part in chosen.items():
        if isinstance(part, LoraLinear):
            raise ValueError(f"layer {name} has LoRA already; add it once, to all layers")
    for name, layer in chosen.items():
        model.set_submodule(name, LoraLinear(layer, rank, alpha))


def merge_lora(state: dict[str, Tensor]) -> None:
    """Add the updates in a state dict to their weights, in place."""
    for stem in [name.removesuffix("lora_b") for name in state if name.endswith("lora_b")]:
        a, b, scale = (state.pop(stem + name).double() for name in OWN)
        weight = state[f"{stem}weight"]
        state[f"{stem}weight"] = (weight.double() + scale * (b @ a)).to(weight.dtype)


def optimize_for_training(model: nn.Module) -> None:
    """Let the linear layers of a model multiply in oneDNN on a CPU, in place.

    PyTorch multiplies in MKL, which is slower on AMD's. For float32, with gradients: losses and
    gradients change by rounding only, and cannot be differentiated twice. Weights, their names and
    hooks stay, and so does what a compiler or another device computes. Layers that something wraps,
    such as LoRA, are left as they are.

    Args:
        model: Any module.
    """
    for part in model.modules():
        if type(part) in (nn.Linear, QueryValueBias) and "forward" not in vars(part):
            part.forward = CpuLinear(part)  # type: ignore[arg-type]


class CpuLinear:
    """Forward pass of a linear layer in oneDNN on a CPU.

    It replaces the method of a layer, not the layer, which others may wrap, hook or quantize as
    before.

    Args:
        linear: The layer.
        frozen: Whether the weights stay as they are. Then a copy of them is kept for bfloat16,
            which PyTorch multiplies in oneDNN too, but casts and reorders the weights in each call.
            The copy would miss changes of ``weight.data``, such as those of MMEngine's EMAHook.
    """

    def __init__(self, linear: nn.Linear, frozen: bool = False) -> None:
        self.linear, self.frozen = linear, frozen
        self._prepared: tuple | None = None  # version and type of the weights, and their copies

    def __call__(self, input: Tensor, act: nn.GELU | None = None) -> Tensor:
        """Map (..., in_features) to (..., out_features), and apply a GELU."""
        # Compilers choose their own matmuls.
        compiling = torch.compiler.is_compiling()
        dtype = None if compiling else _onednn_type(input, self.linear.weight)
        if dtype is None or (dtype != torch.float32 and not self.frozen):
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
        prepared = self._prepared  # threads may share the layer
        if prepared is None or prepared[0] != key:
            copied = ONEDNN._reorder_linear_weight(weight.to(dtype), None)
            prepared = key, copied, None if bias is None else bias.to(dtype)
            self._prepared = prepared
        return prepared[1:]

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
    plain = input.device.type == "cpu" and type(weight) is nn.Parameter and input.numel()
    if not plain or input.shape[-1] != weight.shape[-1]:  # PyTorch's error tells the shapes
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

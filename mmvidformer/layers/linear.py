"""Linear layers: a bias without that of the keys, and low-rank adaptation."""

import copy
import math
from collections.abc import Sequence
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mmvidformer.errors import UnknownName, UserError

Layer = TypeVar("Layer", bound=nn.Module)
OWN = ("lora_a", "lora_b", "lora_scale")


class QueryValueBias(nn.Linear):
    """Projection to queries, keys and values with a bias of queries and values alone (BEiT).

    Args:
        dim: Token width D; the weight is (3 D, D), the bias (2 D,).
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim, 3 * dim)
        self.bias = nn.Parameter(torch.zeros(2 * dim))

    def with_full_bias(self) -> nn.Linear:
        """Return an ordinary layer that computes the same."""
        layer = nn.Linear(self.in_features, self.out_features, device="meta")
        layer.weight, layer.bias = self.weight, nn.Parameter(full_bias(self.bias).detach())
        return layer

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., D) to (..., 3 D)."""
        return linear(input, self.weight, full_bias(self.bias))


def full_bias(bias: Tensor) -> Tensor:
    """Map a bias (2 D,) of queries and values to (3 D,), with zeros for the keys."""
    query, value = bias.chunk(2)
    return torch.cat([query, torch.zeros_like(query), value])


def is_plain(layer: nn.Module, layer_type: type[Layer]) -> TypeGuard[Layer]:
    """Return whether a module is what its class says: no wrapper, hook or quantized weight.

    A forward method in its place is none if it computes the same, as that of a pass.
    """
    replacement = vars(layer).get("forward")
    same_output = replacement is None or getattr(replacement, "is_linear", False)
    weights_are_plain = all(type(x) is nn.Parameter for x in layer.parameters(recurse=False))
    return type(layer) is layer_type and same_output and weights_are_plain and not has_hooks(layer)


def has_hooks(layer: nn.Module) -> bool:
    """Return whether something is to run before or after a module."""
    forward_hooks = layer._forward_pre_hooks or layer._forward_hooks
    return bool(forward_hooks or layer._backward_pre_hooks or layer._backward_hooks)


class LoraLinear(nn.Linear):
    """A linear layer and the product of two thin matrices, ``W x + b + scale B (A x)``.

    ``W`` and ``b`` keep their names and are not trained. Where a state dict has no ``A`` and ``B``,
    as those of the plain layer, ``B`` becomes zero.

    Args:
        layer: The layer, whose weights are shared. The forward pass of its class is ``W x`` and a
            bias, with no factor, and reads attributes alone.
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
    model: nn.Module, rank: int = 8, alpha: float = 16.0, layers: Sequence[str] | None = None
) -> None:
    """Replace linear layers of a model by ``LoraLinear`` (Hu et al. 2022), in place.

    Args:
        model: A model; its other parameters are trained as before.
        rank: Rank of the updates.
        alpha: The updates are multiplied by alpha / rank.
        layers: Last parts of the names of the layers, such as ``'qkv'``, ``'proj'``, ``'fc1'``.
            Default: ``'qkv'``, ``'proj'``, and ``'fc'`` if there is one. Without updates of an fc
            that is zero, as in a model that starts from images, attention over time never learns.

    Raises:
        KeyError: If the model has no linear layer of such a name.
        UserError: If the rank is less than 1, or one of the layers is a ``LoraLinear`` already.
    """
    if rank < 1:
        raise UserError(f"the rank must be at least 1, got {rank}")
    linears = {name: part for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    known = {name.rpartition(".")[2] for name in linears}
    if layers is None:
        layers = ["qkv", "proj", *({"fc"} & known)]
    if unknown := [name for name in layers if name not in known]:
        raise UnknownName(
            f"linear layers for LoRA are {', '.join(sorted(known))}; got {unknown[0]!r}"
        )
    chosen = {name: part for name, part in linears.items() if name.rpartition(".")[2] in layers}
    for name, part in chosen.items():
        if isinstance(part, LoraLinear):
            raise UserError(f"layer {name} has LoRA already; add it once, to all layers")
    for name, layer in chosen.items():
        model.set_submodule(name, LoraLinear(layer, rank, alpha))


def merge_lora(state: dict[str, Tensor]) -> None:
    """Add the updates in a state dict to their weights, in place."""
    for stem in [name.removesuffix("lora_b") for name in state if name.endswith("lora_b")]:
        a, b, scale = (state.pop(stem + name).double() for name in OWN)
        weight = state[f"{stem}weight"]
        state[f"{stem}weight"] = (weight.double() + scale * (b @ a)).to(weight.dtype)

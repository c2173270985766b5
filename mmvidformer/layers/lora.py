"""Low-rank adaptation of linear layers (LoRA, Hu et al. 2022)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

OWN = ("lora_a", "lora_b", "lora_scale")


class LoraLinear(nn.Linear):
    """A linear layer and the product of two thin matrices, ``W x + b + scale B (A x)``.

    ``add_lora`` makes it of a layer. ``W`` and ``b`` keep their names and are not trained. Where a
    state dict has no ``A`` and ``B``, as those of the plain layer, ``B`` becomes zero.
    """

    lora_a: Tensor
    lora_b: Tensor
    lora_scale: Tensor

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., in_features) to (..., out_features)."""
        inner = self.lora_scale * linear(input, self.lora_a)
        return super().forward(input) + linear(inner, self.lora_b)

    def merge(self) -> None:
        """Become the plain layer with the same output."""
        merge_lora(state := self.state_dict())
        self.weight = nn.Parameter(state["weight"])
        for name in OWN:
            delattr(self, name)
        self.__class__ = type(self).__bases__[-1]

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args: Any) -> None:
        if f"{prefix}weight" in state_dict and f"{prefix}lora_b" not in state_dict:
            plain = self.lora_a, torch.zeros_like(self.lora_b), self.lora_scale
            state_dict.update({prefix + name: x for name, x in zip(OWN, plain, strict=True)})
        super()._load_from_state_dict(state_dict, prefix, *args)


def add_lora(
    model: nn.Module, rank: int = 8, alpha: float = 16.0, layers: Sequence[str] = ("qkv", "proj")
) -> None:
    """Make linear layers of a model a ``LoraLinear``, in place.

    Args:
        model: A model; its other parameters are trained as before.
        rank: Rank of the updates.
        alpha: The updates are multiplied by alpha / rank.
        layers: Last parts of the names of the layers, such as ``'qkv'``, ``'proj'``, ``'fc1'``.

    Raises:
        KeyError: If the model has no linear layer of such a name.
        ValueError: If the rank is less than 1.
    """
    if rank < 1:
        raise ValueError(f"the rank must be at least 1, got {rank}")
    found = {name: part for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    known = {name.rpartition(".")[2] for name in found}
    if unknown := [name for name in layers if name not in known]:
        raise KeyError(f"linear layers for LoRA are {', '.join(sorted(known))}; got {unknown[0]!r}")
    layer: Any
    for layer in (part for name, part in found.items() if name.rpartition(".")[2] in layers):
        kind, weight = type(layer), layer.weight
        layer.requires_grad_(False)
        if kind is nn.Linear:
            layer.__class__ = LoraLinear
        else:  # an heir of both
            layer.__class__ = type(f"Lora{kind.__name__}", (LoraLinear, kind), {})
        layer.lora_a = nn.Parameter(weight.new_empty(rank, layer.in_features))
        layer.lora_b = nn.Parameter(weight.new_zeros(layer.out_features, rank))
        layer.register_buffer("lora_scale", weight.new_tensor(alpha / rank))
        nn.init.kaiming_uniform_(layer.lora_a, a=math.sqrt(5))  # as in the authors' code


def merge_lora(state: dict[str, Tensor]) -> None:
    """Add the updates in a state dict to their weights, in place."""
    for stem in [name.removesuffix("lora_b") for name in state if name.endswith("lora_b")]:
        a, b, scale = (state.pop(stem + name).double() for name in OWN)
        weight = state[f"{stem}weight"]
        state[f"{stem}weight"] = (weight.double() + scale * (b @ a)).to(weight.dtype)

"""Parts that one of a video model and its image model has alone, and that can be made up for."""

import re
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from mmvidformer.convert.keymap import State

NORMS = ("fc_norm.", "encoders.0.norm.")  # of pooled features, or of tokens
SCALE = "scale.gamma"


def fit(weights: State, wanted: Mapping[str, Tensor]) -> State:
    """Rewrite weights for a model with other parts, so that it computes the same.

    LayerScale goes into the layers before it, a bias without that of the keys gets zeros, and the
    last norm gets the name that the model has.

    Args:
        weights: Weights of an image model.
        wanted: Weights of the model.
    """
    out = dict(weights)
    for one, other in (NORMS, NORMS[::-1]):
        if f"{one}weight" in out and f"{one}weight" not in wanted:
            out = {re.sub(f"^{one}", other, name): value for name, value in out.items()}
    bias = max((len(x) for n, x in wanted.items() if n.endswith("attn.qkv.bias")), default=0)
    for name, value in weights.items():
        if name.endswith(SCALE) and not any(own.endswith(SCALE) for own in wanted):
            layer = _before(name)
            out[f"{layer}.weight"] = out[f"{layer}.weight"] * value[:, None]
            out[f"{layer}.bias"] = out[f"{layer}.bias"] * out.pop(name)
        if name.endswith("attn.qkv.bias") and 2 * bias == 3 * len(value):
            queries, values = value.chunk(2)
            out[name] = torch.cat([queries, torch.zeros_like(queries), values])
    return out


def neutral(copies: Collection[str], wanted: Mapping[str, Tensor]) -> State:
    """Return values that change nothing for parts that an image model does not have.

    Biases and position tables are zero, LayerScale is one.

    Args:
        copies: Names that have the weights of the image model.
        wanted: Weights of the model.
    """
    out = {}
    for name, own in wanted.items():
        encoder, table, _ = name.partition(".pos_embed.")
        if name in copies:
            continue
        if name.endswith(SCALE) and f"{_before(name)}.weight" in copies:
            out[name] = torch.ones_like(own)
        elif (name.endswith(".bias") and f"{name.removesuffix('bias')}weight" in copies) or (
            table and f"{encoder}.blocks.0.norm.weight" in copies
        ):
            out[name] = torch.zeros_like(own)
    return out


def _before(scale: str) -> str:
    """Return the name of the layer whose output a LayerScale multiplies."""
    stem = scale.removesuffix(SCALE)
    return stem + ("attn.proj" if ".sublayers." in stem else "mlp.fc2")

"""Parts that one of a video model and its image model has alone, and that can be made up for."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from mmvidformer.convert.keymap import State

NORMS = ("fc_norm.", "encoders.0.norm.")  # of pooled features, or of tokens


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
            for kind in ("weight", "bias"):
                out[other + kind] = out.pop(one + kind)
    scaled = any(name.endswith("scale.gamma") for name in wanted)
    bias = max((len(x) for n, x in wanted.items() if n.endswith("attn.qkv.bias")), default=0)
    for name, value in weights.items():
        if name.endswith("scale.gamma") and not scaled:
            stem = name.removesuffix("scale.gamma")
            layer = stem + ("attn.proj" if ".sublayers." in stem else "mlp.fc2")
            out[f"{layer}.weight"] = out[f"{layer}.weight"] * value[:, None]
            out[f"{layer}.bias"] = out[f"{layer}.bias"] * out.pop(name)
        if name.endswith("attn.qkv.bias") and 2 * bias == 3 * len(value):
            queries, values = value.chunk(2)
            out[name] = torch.cat([queries, torch.zeros_like(queries), values])
    return out


def neutral(copies: Iterable[str], wanted: Mapping[str, Tensor]) -> State:
    """Return values that change nothing for parts that an image model does not have.

    Biases and position tables are zero, LayerScale is one.

    Args:
        copies: Names that have the weights of the image model.
        wanted: Weights of the model.
    """
    done, out = set(copies), {}
    for name, own in wanted.items():
        stem = name.removesuffix("scale.gamma")
        layer = stem + ("attn.proj" if ".sublayers." in stem else "mlp.fc2")
        encoder, table, _ = name.partition(".pos_embed.")
        if name in done:
            continue
        if name.endswith("scale.gamma") and f"{layer}.weight" in done:
            out[name] = torch.ones_like(own)
        elif name.endswith(".bias") and f"{name.removesuffix('bias')}weight" in done:
            out[name] = torch.zeros_like(own)
        elif table and f"{encoder}.blocks.0.norm.weight" in done:
            out[name] = torch.zeros_like(own)
    return out

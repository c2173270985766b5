"""Weights that are rewritten for the parts that a model has: factors, biases, norms."""

import re
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from mmvidformer.checkpoints.keymap import State

LAST_NORMS = ("fc_norm.", "encoders.0.norm.")  # of pooled features, or of tokens
BACKBONE, SCALE, GATE = "backbone.", "scale.gamma", ".gate"


def fit_parts(state: State, wanted: Mapping[str, Tensor]) -> State:
    """Rewrite weights for the parts of a backbone, ``wanted``, so that it computes the same.

    LayerScale goes into the layers before it, as does an ``fc`` after attention, a bias without
    that of the keys gets zeros, and the last norm gets the name that the model has.
    """
    out = {n.removeprefix(BACKBONE): x for n, x in state.items() if n.startswith(BACKBONE)}
    for norm, other_norm in (LAST_NORMS, LAST_NORMS[::-1]):
        if f"{norm}weight" in out and f"{norm}weight" not in wanted:
            out = {re.sub(f"^{norm}", other_norm, name): value for name, value in out.items()}
    bias = max((len(x) for n, x in wanted.items() if n.endswith("attn.qkv.bias")), default=0)
    scaled = any(name.endswith(SCALE) for name in wanted)
    for name, value in list(out.items()):
        if name.endswith(SCALE) and not scaled:
            _multiply(out, _before(name, out), out.pop(name))
        if name.endswith(GATE) and name not in wanted:
            _multiply(out, f"{name.removesuffix(GATE)}.fc", out.pop(name).tanh())
        if name.endswith("attn.qkv.bias") and 2 * bias == 3 * len(value):
            queries, values = value.chunk(2)
            out[name] = torch.cat([queries, torch.zeros_like(queries), values])
    for name in [name for name in out if name.endswith(".fc.weight") and name not in wanted]:
        stem = name.removesuffix("fc.weight")
        if f"{stem}attn.proj.weight" in wanted:
            weight, shift = out.pop(name), out.pop(f"{stem}fc.bias")
            proj = f"{stem}attn.proj"
            out[f"{proj}.weight"] = weight @ out[f"{proj}.weight"]
            out[f"{proj}.bias"] = weight @ out[f"{proj}.bias"] + shift
    return out


def _multiply(state: State, layer: str, factor: Tensor) -> None:
    """Multiply the output of a layer by one number, or one for each channel."""
    weight, bias = f"{layer}.weight", f"{layer}.bias"
    state[weight] = state[weight] * factor[..., None]
    state[bias] = state[bias] * factor


def neutral_values(copies: Mapping[str, str], wanted: Mapping[str, Tensor]) -> State:
    """Return values that change nothing for parts of a model beside those that are copied."""
    out = {}
    for name, current in wanted.items():
        encoder, table, _ = name.partition(".pos_embed.")
        if name in copies:
            continue
        if name.endswith(SCALE) and f"{_before(name, wanted)}.weight" in copies:
            out[name] = torch.ones_like(current)
        elif ".fc." in name and _has_own_attention(name.partition(".fc.")[0], copies, wanted):
            out[name] = torch.zeros_like(current)
            if name.endswith("weight"):
                out[name].fill_diagonal_(1)
        elif (name.endswith(".bias") and f"{name.removesuffix('bias')}weight" in copies) or (
            table and f"{encoder}.blocks.0.norm.weight" in copies
        ):
            out[name] = torch.zeros_like(current)
    return out


def _has_own_attention(
    sublayer: str, copies: Mapping[str, str], wanted: Mapping[str, Tensor]
) -> bool:
    """Return whether a sub-layer has the source's own attention without its ``fc``, or a copy."""
    proj, fc = f"{sublayer}.attn.proj.weight", f"{sublayer}.fc.weight"
    return copies.get(proj) == proj and fc not in copies and f"{sublayer}.gate" not in wanted


def _before(scale: str, names: Collection[str]) -> str:
    """Return the name of the layer whose output a LayerScale multiplies."""
    stem = scale.removesuffix(SCALE)
    if ".sublayers." not in stem:
        return f"{stem}mlp.fc2"
    return f"{stem}fc" if f"{stem}fc.weight" in names else f"{stem}attn.proj"

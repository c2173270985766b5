"""Image ViTs of timm and Google (original, augreg, big_vision) to this package's names."""

import re
from collections.abc import Mapping
from math import isqrt

import torch
from torch import Tensor

from mmvidformer.convert.flax_layers import PREFIXES, TRAIN_STATE, block_rules, layer_rules
from mmvidformer.convert.keymap import (
    ADD_TIME,
    BLOCK,
    Conversion,
    Op,
    Rule,
    apply_rules,
    linear,
    strip_prefixes,
)
from mmvidformer.convert.positions import Grid, frame_grid, position_rule

# Classifiers, the hidden layer before them, and optimizer states.
IGNORED = (r"(head|pre_logits|output_projection|MAPHead_0)/.*", *TRAIN_STATE)


def from_google_npz(state: Mapping[str, Tensor], grid: Grid | None = None) -> Conversion:
    """Convert an image ViT without its classifier."""
    state = strip_prefixes(state, PREFIXES)
    original = any("MultiHeadDotProductAttention_1/" in name for name in state)
    # Suffixes: flax.nn numbered all parts of a block together, flax.linen numbers each kind
    # separately.
    attention, norm, mlp = (1, 2, 3) if original else (0, 1, 0)
    rules = layer_rules("embedding", "backbone.embed.proj", "conv")
    rules.append(Rule(("cls",), ("backbone.encoders.0.cls_token",), optional=True))
    table = "pos_embedding"
    table = table if table in state else f"Transformer/posembed_input/{table}"
    cls = "cls" in state
    slot = cls and original  # big_vision has no position for the class token
    size = frame_grid(state[table].shape[1] - slot, grid) if table in state else (1, 1, 1)
    rules.append(position_rule(table, "backbone.encoders.0.pos_embed", size, cls, slot))
    rules += block_rules(
        "Transformer/encoderblock_{i}",
        "backbone.encoders.0.blocks.{i}",
        {"joint": ("LayerNorm_0", f"MultiHeadDotProductAttention_{attention}")},
        f"LayerNorm_{norm}",
        f"MlpBlock_{mlp}",
    )
    rules += layer_rules("Transformer/encoder_norm", "backbone.encoders.0.norm", "norm")
    result = apply_rules(state, rules, IGNORED)
    query = f"Transformer/encoderblock_0/MultiHeadDotProductAttention_{attention}/query/kernel"
    result.num_heads = state[query].shape[1]
    result.settings = dict(norm=dict(type="layer", eps=1e-6), mlp=dict(type="mlp", act="gelu_tanh"))
    return result


# Classifiers, and the attention pool of SigLIP, which is a head.
TIMM_IGNORED = (r"(head|head_dist|pre_logits\.fc)\.(weight|bias)", r"attn_pool\..*")

TIMM_OPTIONS = {
    "attn.q_norm": "sublayers.joint.attn.prepare.qk_norm.q",
    "attn.k_norm": "sublayers.joint.attn.prepare.qk_norm.k",
    "ls1": "sublayers.joint.scale",
    "mlp.norm": "mlp.act.1",
    "ls2": "scale",
}
# Eva has these parts apart, and may have no bias of keys.
TIMM_STACKED = {
    "sublayers.joint.attn.qkv.weight": [f"attn.{part}_proj.weight" for part in "qkv"],
    "sublayers.joint.attn.qkv.bias": ["attn.q_proj.bias", "attn.v_proj.bias"],
    "mlp.fc1.weight": ["mlp.fc1_g.weight", "mlp.fc1_x.weight"],
    "mlp.fc1.bias": ["mlp.fc1_g.bias", "mlp.fc1_x.bias"],
}
STACK = Op(lambda *parts: (torch.cat(parts),))


def from_timm(state: Mapping[str, Tensor], grid: Grid | None = None) -> Conversion:
    """Convert a ``VisionTransformer`` or ``Eva`` of timm without its head.

    Without a ``grid``, the position table of a model with LayerScale (DeiT III, DINOv2 with
    registers) has no vectors for class token and registers if it is square.
    """
    ours, state = "backbone.encoders.0", {_as_vit(name): value for name, value in state.items()}
    # Without a class token, the first register takes its role in attention.
    prefix = [state.pop(name) for name in ("cls_token", "reg_token") if name in state]
    tokens = torch.cat(prefix, dim=1) if prefix else torch.empty(1, 0, 0)
    cls, size, slots = bool(prefix), (1, 1, 1), 0
    if "pos_embed" in state:
        table = state["pos_embed"]
        count = table.shape[1]
        square = isqrt(count) ** 2 == count and "blocks.0.ls1.gamma" in state
        slots = 0 if (grid[1] * grid[2] == count if grid else square) else tokens.shape[1]
        if slots > 1:  # registers have no positions in this package
            tokens = torch.cat([tokens[:, :1], tokens[:, 1:] + table[:, 1:slots]], dim=1)
            state["pos_embed"] = torch.cat([table[:, :1], table[:, slots:]], dim=1)
        size = frame_grid(count - slots, grid)
    parts = {"cls_token": tokens[:, :1], "reg_token": tokens[:, 1:]}
    state |= {name: part for name, part in parts.items() if part.shape[1]}
    rules = [
        Rule(("patch_embed.proj.weight",), ("backbone.embed.proj.weight",), ADD_TIME),
        Rule(("patch_embed.proj.bias",), ("backbone.embed.proj.bias",), optional=True),
        Rule(("cls_token",), (f"{ours}.cls_token",), optional=not cls),
    ]
    for name in ("registers", "norm_pre.weight", "norm_pre.bias"):
        source = name.replace("registers", "reg_token")
        rules += [Rule((source,), (f"{ours}.{name}",))] if source in state else []
    if "pos_embed" in state:
        rules.append(position_rule("pos_embed", f"{ours}.pos_embed", size, cls, slot=bool(slots)))
    norm = "fc_norm" if "fc_norm.weight" in state else "norm"
    target = "backbone.fc_norm" if norm == "fc_norm" else f"{ours}.norm"
    rules += linear(norm, target)[: 1 + ("blocks.0.norm1.bias" in state)]  # RMS norms have none
    return apply_rules(state, rules + _timm_blocks(state, f"{ours}.blocks.{{i}}"), TIMM_IGNORED)


def _as_vit(name: str) -> str:
    """Return the name of ``VisionTransformer`` for one of ``Eva``."""
    name = re.sub(r"gamma_([12])$", r"ls\1.gamma", name)
    return re.sub(r"\.([qv])_bias$", r".\1_proj.bias", name)


def _timm_blocks(state: Mapping[str, Tensor], target: str) -> list[Rule]:
    parts = {ours: names for ours, names in TIMM_STACKED.items() if f"blocks.0.{names[0]}" in state}
    for name, ours in {**BLOCK, **TIMM_OPTIONS}.items():
        for kind in ("weight", "bias", "gamma"):
            needed = kind == "weight" and name not in TIMM_OPTIONS
            if f"blocks.0.{name}.{kind}" in state or (needed and f"{ours}.weight" not in parts):
                parts[f"{ours}.{kind}"] = [f"{name}.{kind}"]
    return [
        Rule(tuple(f"blocks.{{i}}.{name}" for name in names), (f"{target}.{ours}",), STACK)
        for ours, names in parts.items()
    ]

"""Image ViTs of timm and Google (original, augreg, big_vision) to this package's names."""

import re
from collections.abc import Mapping
from functools import partial
from math import isqrt

import torch
from torch import Tensor

from mmvidformer.convert.flax_layers import FLAX_NN, LINEN, TRAIN_STATE, read_flax
from mmvidformer.convert.keymap import ADD_TIME, Conversion, apply_rules, has, key_map
from mmvidformer.convert.positions import Grid, frame_grid, positions

OURS = "backbone.encoders.0"
# Classifiers, the hidden layer before them, and optimizer states.
IGNORED = (r"(head|pre_logits|output_projection|MAPHead_0)/.*", *TRAIN_STATE)


def from_google_npz(state: Mapping[str, Tensor], grid: Grid | None = None) -> Conversion:
    """Convert an image ViT without its classifier."""
    state, num_heads = read_flax(state)
    original = has(state, "MultiHeadDotProductAttention_1/")
    table, cls = "pos_embedding", "cls" in state
    slot = cls and original  # big_vision has no position for the class token
    rules = key_map(
        "flax",
        *("stem", "joint", "norm", "cls_token", "positions_with_cls" if cls else "positions"),
        ops={f"{OURS}.pos_embed.thw": positions(partial(frame_grid, given=grid), cls, slot)},
        ours=OURS,
        encoder="Transformer",
        positions=table if table in state else f"Transformer/posembed_input/{table}",
        cls="cls",
        sublayer="joint",
        **(FLAX_NN if original else LINEN),
    )
    result = apply_rules(state, rules, IGNORED)
    result.num_heads = num_heads
    result.settings = dict(norm=dict(type="layer", eps=1e-6), mlp=dict(type="mlp", act="gelu_tanh"))
    return result


# Classifiers, and the attention pool of SigLIP, which is a head.
TIMM_IGNORED = (r"(head|head_dist|pre_logits\.fc)\.(weight|bias)", r"attn_pool\..*")


def from_timm(state: Mapping[str, Tensor], grid: Grid | None = None) -> Conversion:
    """Convert a ``VisionTransformer`` or ``Eva`` of timm without its head.

    Without a ``grid``, the position table of a model with LayerScale (DeiT III, DINOv2 with
    registers) has no vectors for class token and registers if it is square.
    """
    state = {_as_vit(name): value for name, value in state.items()}
    # Without a class token, the first register takes its role in attention.
    prefix = [state.pop(name) for name in ("cls_token", "reg_token") if name in state]
    tokens = torch.cat(prefix, dim=1) if prefix else torch.empty(1, 0, 0)
    cls, slots = bool(prefix), 0
    if "pos_embed" in state:
        table = state["pos_embed"]
        count = table.shape[1]
        square = isqrt(count) ** 2 == count and "blocks.0.ls1.gamma" in state
        slots = 0 if (grid[1] * grid[2] == count if grid else square) else tokens.shape[1]
        if slots > 1:  # registers have no positions in this package
            tokens = torch.cat([tokens[:, :1], tokens[:, 1:] + table[:, 1:slots]], dim=1)
            state["pos_embed"] = torch.cat([table[:, :1], table[:, slots:]], dim=1)
    parts = {"cls_token": tokens[:, :1], "reg_token": tokens[:, 1:]}
    state |= {name: part for name, part in parts.items() if part.shape[1]}
    options = key_map("timm", "options", "apart")
    rules = [rule for rule in options if rule.sources[0].replace("{i}", "0") in state]
    known = {rule.targets for rule in rules}
    needed = key_map("timm", "needed", ops={"backbone.embed.proj.weight": ADD_TIME})
    rules += [rule for rule in needed if rule.targets not in known]
    if "pos_embed" in state:
        op = positions(partial(frame_grid, given=grid), cls, bool(slots))
        section = "positions_with_cls" if cls else "positions"
        rules += key_map("timm", section, ops={f"{OURS}.pos_embed.thw": op})
    norm = key_map("timm", "fc_norm" if "fc_norm.weight" in state else "norm")
    rules += norm if "blocks.0.norm1.bias" in state else norm[:1]  # RMS norms have none
    return apply_rules(state, rules, TIMM_IGNORED)


def _as_vit(name: str) -> str:
    """Return the name of ``VisionTransformer`` for one of ``Eva``."""
    name = re.sub(r"gamma_([12])$", r"ls\1.gamma", name)
    return re.sub(r"\.([qv])_bias$", r".\1_proj.bias", name)

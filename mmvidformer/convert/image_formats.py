"""Image ViTs of timm and Google (original, augreg, big_vision) to this package's names."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.flax_layers import PREFIXES, TRAIN_STATE, block_rules, layer_rules
from mmvidformer.convert.keymap import (
    ADD_TIME,
    Conversion,
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
    return result


TIMM_IGNORED = (r"(head|head_dist|pre_logits\.fc)\.(weight|bias)",)

TIMM_BLOCK = (
    ("norm1", "sublayers.joint.norm"),
    ("attn.qkv", "sublayers.joint.attn.qkv"),
    ("attn.proj", "sublayers.joint.attn.proj"),
    ("norm2", "norm"),
    ("mlp.fc1", "mlp.fc1"),
    ("mlp.fc2", "mlp.fc2"),
)


def from_timm(state: Mapping[str, Tensor], grid: Grid | None = None) -> Conversion:
    """Convert a ``timm.models.VisionTransformer`` without its classifier."""
    ours, cls, size = "backbone.encoders.0", "cls_token" in state, (1, 1, 1)
    if "pos_embed" in state:
        size = frame_grid(state["pos_embed"].shape[1] - cls, grid)
    rules = [
        Rule(("patch_embed.proj.weight",), ("backbone.embed.proj.weight",), ADD_TIME),
        Rule(("patch_embed.proj.bias",), ("backbone.embed.proj.bias",)),
        Rule(("cls_token",), (f"{ours}.cls_token",), optional=not cls),
        position_rule("pos_embed", f"{ours}.pos_embed", size, cls, slot=cls),
        *linear("norm", f"{ours}.norm"),
    ]
    for source, target in TIMM_BLOCK:
        rules += linear(f"blocks.{{i}}.{source}", f"{ours}.blocks.{{i}}.{target}")
    return apply_rules(state, rules, TIMM_IGNORED)

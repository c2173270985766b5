"""Scenic's ViViT checkpoints (Flax), models 1 to 4, to this package's names."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.flax_layers import PREFIXES, TRAIN_STATE, block_rules, layer_rules
from mmvidformer.convert.keymap import Conversion, Rule, apply_rules, strip_prefixes
from mmvidformer.convert.positions import Grid, clip_grid, frame_grid, position_rule

# Norm and attention of each sub-layer in a block with divided attention.
DIVIDED = {
    axis: (f"LayerNorm_{axis}", f"MultiHeadDotProductAttention_{axis}")
    for axis in ("space", "time")
}

# Encoder in the source, its class token, encoder in this package.
ENCODERS = (
    ("Transformer", "cls", "encoders.0"),
    ("SpatialTransformer", "cls_SpatialTransformer", "encoders.0"),
    ("TemporalTransformer", "cls_TemporalTransformer", "encoders.1"),
)

# Schemes with the same names. The first one is assumed: the official default of model 3, otherwise
# the published one.
SCHEMES = {
    "per_frame": ("factorized_encoder",),
    "divided": ("factorized_self_attention_ts", "factorized_self_attention"),
    "cls": ("spacetime",),
    "no_cls": ("spacetime", "factorized_dot_product"),
}


def from_scenic(
    state: Mapping[str, Tensor], grid: Grid | None = None, scheme: str | None = None
) -> Conversion:
    """Convert a ViViT of scenic.

    The ``scheme`` is a key of ``models.vivit.SCHEMES``. It is needed for model 4, which has the
    names of model 1 without class token, and for model 3 in the paper's order, space before time.
    """
    state = strip_prefixes(state, PREFIXES)
    possible = SCHEMES[_kind(state)]
    if scheme is not None and scheme not in possible:
        wanted = " or ".join(map(repr, possible))
        raise ValueError(f"scheme {scheme!r} does not fit; the checkpoint needs {wanted}")
    assumed = scheme is None and len(possible) > 1
    scheme = scheme or possible[0]
    rules = layer_rules("embedding", "backbone.embed.proj", "conv")
    rules += layer_rules("output_projection", "cls_head.fc_cls", "dense", optional=True)
    for source, cls, target in ENCODERS:
        if any(name.startswith(f"{source}/") for name in state):
            rules += _encoder_rules(state, source, cls, f"backbone.{target}", grid, scheme)
    result = apply_rules(state, rules, TRAIN_STATE)
    if assumed:
        result.notes.append(f"scheme {possible[0]!r} assumed; {possible[1]!r} has the same names")
    result.model, result.scheme = "ViViT", scheme
    query = next((k for k in state if k.endswith("/query/kernel")), None)
    result.num_heads = state[query].shape[1] if query else None
    return result


def _kind(state: Mapping[str, Tensor]) -> str:
    if any(name.startswith("SpatialTransformer/") for name in state):
        return "per_frame"
    if any("MultiHeadDotProductAttention_time" in name for name in state):
        return "divided"
    return "cls" if "cls" in state else "no_cls"


def _encoder_rules(
    state: Mapping[str, Tensor],
    source: str,
    cls_name: str,
    target: str,
    grid: Grid | None,
    scheme: str,
) -> list[Rule]:
    table = f"{source}/posembed_input/pos_embedding"
    cls = cls_name in state
    rules = [Rule((cls_name,), (f"{target}.cls_token",))] if cls else []
    count = state[table].shape[1] - cls if table in state else 1
    size = (count, 1, 1)
    if table in state and "embedding/kernel" in state:
        size = _grid(source, count, tuple(state["embedding/kernel"].shape[:-2]), grid)
    rules.append(position_rule(table, f"{target}.pos_embed", size, cls, slot=cls))
    blocks = f"{source}/encoderblock_{{i}}", f"{target}.blocks.{{i}}"
    if scheme.startswith("factorized_self_attention"):
        rules += block_rules(*blocks, DIVIDED, "LayerNorm_mlp", "MlpBlock")
    else:
        sublayer = "time_space" if scheme == "factorized_dot_product" else "joint"
        joint = {sublayer: ("LayerNorm_0", "MultiHeadDotProductAttention_0")}
        rules += block_rules(*blocks, joint, "LayerNorm_1", "MlpBlock_0")
    return rules + layer_rules(f"{source}/encoder_norm", f"{target}.norm", "norm")


def _grid(source: str, count: int, patch: tuple[int, ...], given: Grid | None) -> Grid:
    if source == "SpatialTransformer":
        return frame_grid(count, given)
    if source == "TemporalTransformer":
        if given and given[0] != count:
            raise ValueError(f"the temporal position table has {count} frames, not {given[0]}")
        return count, 1, 1
    return clip_grid(count, patch if len(patch) == 3 else (1, *patch), given)

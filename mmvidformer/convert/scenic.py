"""Scenic's ViViT checkpoints (Flax), models 1 to 4, to this package's names."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.flax_layers import layer_rules
from mmvidformer.convert.keymap import Conversion, Rule, apply_rules, strip_prefixes
from mmvidformer.convert.positions import Grid, clip_grid, frame_grid, position_rule

PREFIXES = ("optimizer/target/", "params/")

# Other parts of a train state.
IGNORED = (
    r"optimizer/state/.*",
    r"opt_state(/.*)?",
    r"model_state(/.*)?",
    r"global_step|rng|accum_train_time|step",
)

PLAIN_BLOCK = (
    ("LayerNorm_0", "sublayers.{sublayer}.norm", "norm"),
    ("MultiHeadDotProductAttention_0", "sublayers.{sublayer}.attn", "attention"),
    ("LayerNorm_1", "norm", "norm"),
    ("MlpBlock_0/Dense_0", "mlp.fc1", "dense"),
    ("MlpBlock_0/Dense_1", "mlp.fc2", "dense"),
)
DIVIDED_BLOCK = (
    ("LayerNorm_space", "sublayers.space.norm", "norm"),
    ("MultiHeadDotProductAttention_space", "sublayers.space.attn", "attention"),
    ("LayerNorm_time", "sublayers.time.norm", "norm"),
    ("MultiHeadDotProductAttention_time", "sublayers.time.attn", "attention"),
    ("LayerNorm_mlp", "norm", "norm"),
    ("MlpBlock/Dense_0", "mlp.fc1", "dense"),
    ("MlpBlock/Dense_1", "mlp.fc2", "dense"),
)

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

    Args:
        state: Flax tree, flattened with ``/``, with or without the prefix ``optimizer/target/``
            or ``params/``.
        grid: Tokens (T, H, W) of the position table. Default: from its length, if that is
            unambiguous (see ``convert.positions``).
        scheme: Key of ``models.vivit.SCHEMES``. Needed for model 4, which has the names of model
            1 without class token, and for model 3 in the paper's order, space before time.
    """
    state = strip_prefixes(state, PREFIXES)
    possible = SCHEMES[_kind(state)]
    if scheme is not None and scheme not in possible:
        wanted = " or ".join(map(repr, possible))
        raise ValueError(f"scheme {scheme!r} does not fit; the checkpoint needs {wanted}")
    notes = []
    if scheme is None and len(possible) > 1:
        notes.append(f"scheme {possible[0]!r} assumed; {possible[1]!r} has the same names")
    scheme = scheme or possible[0]

    rules = layer_rules("embedding", "backbone.embed.proj", "conv")
    rules += layer_rules("output_projection", "cls_head.fc_cls", "dense", optional=True)
    for source, cls, target in ENCODERS:
        if any(name.startswith(f"{source}/") for name in state):
            rules += _encoder_rules(state, source, cls, f"backbone.{target}", grid, scheme)
    result = apply_rules(state, rules, IGNORED)
    result.notes += notes
    result.scheme = scheme
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
    if table in state and "embedding/kernel" in state:
        length = state[table].shape[1]
        size = _grid(source, length, cls, tuple(state["embedding/kernel"].shape[:-2]), grid)
        rules.append(position_rule(table, f"{target}.pos_embed", size, cls, slot=cls))
    else:
        rules.append(Rule((table,), (f"{target}.pos_embed.thw",)))  # reported as missing
    divided = scheme.startswith("factorized_self_attention")
    sublayer = "time_space" if scheme == "factorized_dot_product" else "joint"
    for name, ours, layer in DIVIDED_BLOCK if divided else PLAIN_BLOCK:
        ours = ours.replace("{sublayer}", sublayer)
        rules += layer_rules(
            f"{source}/encoderblock_{{i}}/{name}", f"{target}.blocks.{{i}}.{ours}", layer
        )
    return rules + layer_rules(f"{source}/encoder_norm", f"{target}.norm", "norm")


def _grid(source: str, length: int, cls: bool, patch: tuple[int, ...], given: Grid | None) -> Grid:
    count = length - cls
    if source == "SpatialTransformer":
        return frame_grid(count, given)
    if source == "TemporalTransformer":
        if given and given[0] != count:
            raise ValueError(f"the temporal position table has {count} frames, not {given[0]}")
        return count, 1, 1
    return clip_grid(count, patch if len(patch) == 3 else (1, *patch), given)

"""TimeSformer (official ``.pyth``, HuggingFace, MMAction2) to this package's names, and back."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from mmvidformer.convert.huggingface import read_num_heads
from mmvidformer.convert.keymap import ADD_TIME, Conversion, Op, Rule, State, apply_rules, linear
from mmvidformer.convert.positions import Grid, frame_grid, position_rule

# Name of the sub-layer over space in this package, by the official attention type.
SPATIAL = {
    "space_only": "joint",
    "joint_space_time": "joint",
    "divided_space_time": "space",
}
TIME_TABLE = Op(lambda x: (x[:, :, None, None],), lambda x: (x[:, :, 0, 0],))


@dataclass(frozen=True)
class Dialect:
    """Names of one code base. ``{kind}`` is weight or bias, by default the last part of a name.

    Args:
        tables: Class token, positions over space, positions over time.
        patches: Patch projection.
        block: Prefix of a block, with ``{i}``.
        space: Norm, qkv and projection of the attention over space.
        time: Norm, qkv, projection and fc of the attention over time.
        mlp: Norm and the two layers of the MLP.
        norm: Last norm.
        head: Classifier.
        undivided: Parts that have another name if a block has a single attention.
    """

    tables: tuple[str, str, str]
    patches: str
    block: str
    space: tuple[str, str, str]
    time: tuple[str, str, str, str]
    mlp: tuple[str, str, str]
    norm: str
    head: str
    undivided: Mapping[str, str] = field(default_factory=dict)


DIALECTS = {
    "official": Dialect(
        tables=("model.cls_token", "model.pos_embed", "model.time_embed"),
        patches="model.patch_embed.proj",
        block="model.blocks.{i}.",
        space=("norm1", "attn.qkv", "attn.proj"),
        time=("temporal_norm1", "temporal_attn.qkv", "temporal_attn.proj", "temporal_fc"),
        mlp=("norm2", "mlp.fc1", "mlp.fc2"),
        norm="model.norm",
        head="model.head",
    ),
    "huggingface": Dialect(
        tables=(
            "timesformer.embeddings.cls_token",
            "timesformer.embeddings.position_embeddings",
            "timesformer.embeddings.time_embeddings",
        ),
        patches="timesformer.embeddings.patch_embeddings.projection",
        block="timesformer.encoder.layer.{i}.",
        space=("layernorm_before", "attention.attention.qkv", "attention.output.dense"),
        time=(
            "temporal_layernorm",
            "temporal_attention.attention.qkv",
            "temporal_attention.output.dense",
            "temporal_dense",
        ),
        mlp=("layernorm_after", "intermediate.dense", "output.dense"),
        norm="timesformer.layernorm",
        head="classifier",
    ),
    "mmaction": Dialect(
        tables=("backbone.cls_token", "backbone.pos_embed", "backbone.time_embed"),
        patches="backbone.patch_embed.projection",
        block="backbone.transformer_layers.layers.{i}.",
        space=(
            "attentions.1.norm",
            "attentions.1.attn.in_proj_{kind}",
            "attentions.1.attn.out_proj",
        ),
        time=(
            "attentions.0.norm",
            "attentions.0.attn.in_proj_{kind}",
            "attentions.0.attn.out_proj",
            "attentions.0.temporal_fc",
        ),
        mlp=("ffns.0.norm", "ffns.0.layers.0.0", "ffns.0.layers.1"),
        norm="backbone.norm",
        head="cls_head.fc_cls",
        undivided={
            "attentions.1.norm": "norms.0",
            "attentions.1.attn.in_proj_{kind}": "attentions.0.attn.in_proj_{kind}",
            "attentions.1.attn.out_proj": "attentions.0.attn.out_proj",
            "ffns.0.norm": "norms.1",
        },
    ),
}


def _rules(names: Dialect, attention: str, grid: Grid) -> list[Rule]:
    ours, sublayer = "backbone.encoders.0", f"sublayers.{SPATIAL[attention]}"
    divided = attention == "divided_space_time"
    parts = dict(
        zip(
            names.space,
            (f"{sublayer}.norm", f"{sublayer}.attn.qkv", f"{sublayer}.attn.proj"),
            strict=True,
        )
    )
    parts |= dict(zip(names.mlp, ("norm", "mlp.fc1", "mlp.fc2"), strict=True))
    if divided:
        targets = ("norm", "attn.qkv", "attn.proj", "fc")
        parts |= dict(zip(names.time, (f"sublayers.time.{t}" for t in targets), strict=True))
    else:
        parts = {names.undivided.get(name, name): target for name, target in parts.items()}

    token, space, time = names.tables
    positions = position_rule(space, f"{ours}.pos_embed", grid, cls=True, slot=True)
    tables = (f"{ours}.pos_embed.hw", f"{ours}.pos_embed.cls")
    rules = [
        Rule((f"{names.patches}.weight",), ("backbone.embed.proj.weight",), ADD_TIME),
        Rule((f"{names.patches}.bias",), ("backbone.embed.proj.bias",)),
        Rule((token,), (f"{ours}.cls_token",)),
        Rule(positions.sources, tables, positions.op),
    ]
    if attention != "space_only":
        rules.append(Rule((time,), (f"{ours}.pos_embed.t",), TIME_TABLE))
    for source, target in parts.items():
        rules += linear(names.block + source, f"{ours}.blocks.{{i}}.{target}")
    rules += linear(names.norm, f"{ours}.norm")
    return rules + linear(names.head, "cls_head.fc_cls", optional=True)


def from_timesformer(
    state: Mapping[str, Tensor], grid: Grid | None = None, meta: Mapping | None = None
) -> Conversion:
    """Convert the weights of a TimeSformer in any of ``DIALECTS``.

    Args:
        state: State dict; for an official file, the content of ``model_state``.
        grid: Tokens (1, H, W) of the position table. Default: square.
        meta: Content of HuggingFace's ``config.json``, which has the number of heads.

    Returns:
        The weights, with the attention type as ``scheme``.
    """
    found = (name for name, own in DIALECTS.items() if own.tables[0] in state)
    dialect = next(found, "official")
    heads = read_num_heads(meta or {}, ("gelu",)) if dialect == "huggingface" else None
    names = DIALECTS[dialect]
    _, space, time = names.tables
    attention = "joint_space_time" if time in state else "space_only"
    if any(names.time[-1] in name for name in state):
        attention = "divided_space_time"
    count = state[space].shape[1] - 1 if space in state else 1
    result = apply_rules(state, _rules(names, attention, frame_grid(count, grid)))
    result.scheme, result.num_heads = attention, heads
    return result


def to_timesformer(state: Mapping[str, Tensor], attention: str, dialect: str = "official") -> State:
    """Convert back.

    Args:
        state: Weights as returned by ``from_timesformer``.
        attention: Key of ``SPATIAL``.
        dialect: Key of ``DIALECTS``.
    """
    rules = [rule.reversed() for rule in _rules(DIALECTS[dialect], attention, (1, 1, 1))]
    return apply_rules(state, rules).state

"""The official TimeSformer's checkpoints (``.pyth``) to ours, and back."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.keymap import (
    ADD_TIME,
    Conversion,
    Op,
    Rule,
    State,
    apply_rules,
    linear,
    strip_prefixes,
)
from mmvidformer.convert.positions import Grid, frame_grid, position_rule

# Our name of the step that the official ``attn`` is, by the official attention type.
SPATIAL_STEP = {
    "space_only": "joint",
    "joint_space_time": "joint",
    "divided_space_time": "space",
}

TEMPORAL = (
    ("temporal_norm1", "steps.time.norm"),
    ("temporal_attn.qkv", "steps.time.attn.qkv"),
    ("temporal_attn.proj", "steps.time.attn.proj"),
    ("temporal_fc", "steps.time.fc"),
)
TIME_TABLE = Op(lambda x: (x[:, :, None, None],), lambda x: (x[:, :, 0, 0],))


def _rules(attention: str, grid: Grid) -> list[Rule]:
    ours, step = "backbone.encoder", f"steps.{SPATIAL_STEP[attention]}"
    blocks = (
        ("norm1", f"{step}.norm"),
        ("attn.qkv", f"{step}.attn.qkv"),
        ("attn.proj", f"{step}.attn.proj"),
        ("norm2", "norm"),
        ("mlp.fc1", "mlp.fc1"),
        ("mlp.fc2", "mlp.fc2"),
        *(TEMPORAL if attention == "divided_space_time" else ()),
    )
    positions = position_rule("pos_embed", f"{ours}.pos_embed", grid, cls=True, slot=True)
    tables = (f"{ours}.pos_embed.hw", f"{ours}.pos_embed.cls")
    rules = [
        Rule(("patch_embed.proj.weight",), ("backbone.embed.proj.weight",), ADD_TIME),
        Rule(("patch_embed.proj.bias",), ("backbone.embed.proj.bias",)),
        Rule(("cls_token",), (f"{ours}.cls_token",)),
        Rule(positions.sources, tables, positions.op),
    ]
    if attention != "space_only":
        rules.append(Rule(("time_embed",), (f"{ours}.pos_embed.t",), TIME_TABLE))
    for source, target in blocks:
        rules += linear(f"blocks.{{i}}.{source}", f"{ours}.blocks.{{i}}.{target}")
    return [*rules, *linear("norm", f"{ours}.norm"), *linear("head", "cls_head.fc_cls")]


def attention_of(state: Mapping[str, Tensor]) -> str:
    """Tell the attention type by the names: a temporal attention, or a table over time, or none."""
    if any("temporal_attn" in name for name in state):
        return "divided_space_time"
    return "joint_space_time" if any("time_embed" in name for name in state) else "space_only"


def from_timesformer(state: Mapping[str, Tensor], grid: Grid | None = None) -> Conversion:
    """Convert the weights of an official TimeSformer.

    Args:
        state: Content of ``model_state``, with the prefix ``model.`` or without.
        grid: Tokens (1, H, W) of the position table. Default: square.

    Returns:
        The weights under our names; ``scheme`` is the attention type.

    Raises:
        ValueError: If names are missing or unknown, or the table is not square.
    """
    state = strip_prefixes(state, ("model.",))
    attention = attention_of(state)
    count = state["pos_embed"].shape[1] - 1 if "pos_embed" in state else 1
    result = apply_rules(state, _rules(attention, frame_grid(count, grid)))
    result.scheme = attention
    return result


def to_timesformer(state: Mapping[str, Tensor], attention: str) -> State:
    """Convert back; names get the prefix ``model.`` of the published files.

    Args:
        state: Weights as ``from_timesformer`` gives them.
        attention: A type of ``SPATIAL_STEP``.

    Raises:
        ValueError: If names are missing or unknown.
    """
    rules = [rule.reversed() for rule in _rules(attention, (1, 1, 1))]
    converted = apply_rules(state, rules).state
    return {f"model.{name}": value for name, value in converted.items()}

"""TimeSformer (official ``.pyth``, HuggingFace, MMAction2) to this package's names, and back."""

from collections.abc import Mapping
from functools import partial

from torch import Tensor

from mmvidformer.convert.huggingface import read_num_heads
from mmvidformer.convert.keymap import (
    ADD_TIME,
    Conversion,
    Op,
    Rule,
    State,
    apply_rules,
    has,
    key_map,
    revert,
)
from mmvidformer.convert.positions import Grid, frame_grid, positions

# Dialects by the name of the class token.
DIALECTS = {
    "model.cls_token": "official",
    "timesformer.embeddings.cls_token": "huggingface",
    "backbone.cls_token": "mmaction",
}
IMAGE = "patch_embed.projection.weight"  # of MMAction2's image model, without "backbone."
# Sections of the table of names by attention.
SECTIONS = {
    "space_only": ("model", "joint"),
    "joint_space_time": ("model", "time", "joint"),
    "divided_space_time": ("model", "time", "divided"),
}
TIME_TABLE = Op(lambda x: (x[:, :, None, None],), lambda x: (x[:, :, 0, 0],))


def _rules(dialect: str, attention: str, grid: Grid | None = None) -> list[Rule]:
    ops = {
        "backbone.embed.proj.weight": ADD_TIME,
        "backbone.encoders.0.pos_embed.hw": positions(partial(frame_grid, given=grid)),
        "backbone.encoders.0.pos_embed.t": TIME_TABLE,
    }
    return key_map("timesformer", *SECTIONS[attention], dialect=dialect, ops=ops)


def from_timesformer(
    state: Mapping[str, Tensor], grid: Grid | None = None, meta: Mapping | None = None
) -> Conversion:
    """Convert the weights of a TimeSformer in any of ``DIALECTS``."""
    if IMAGE in state:
        state = {f"backbone.{name}": value for name, value in state.items()}
    dialect = next((DIALECTS[name] for name in state if name in DIALECTS), "official")
    heads = read_num_heads(meta or {}, ("gelu",)) if dialect == "huggingface" else None
    attention = "joint_space_time" if has(state, r"\.time_embed") else "space_only"
    if has(state, "temporal_fc|temporal_dense"):
        attention = "divided_space_time"
    result = apply_rules(state, _rules(dialect, attention, grid))
    result.model, result.scheme, result.num_heads = "TimeSformer", attention, heads
    return result


def to_timesformer(state: Mapping[str, Tensor], attention: str, dialect: str = "official") -> State:
    """Convert back.

    Args:
        state: Weights as returned by ``from_timesformer``.
        attention: Scheme, a name in ``SECTIONS``.
        dialect: ``'official'``, ``'huggingface'`` or ``'mmaction'``.
    """
    return revert(state, _rules(dialect, attention))

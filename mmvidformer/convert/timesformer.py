"""TimeSformer (official ``.pyth``, HuggingFace, MMAction2) to this package's names, and back."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.huggingface import read_num_heads
from mmvidformer.convert.keymap import ADD_TIME, Conversion, Op, Rule, State, apply_rules, linear
from mmvidformer.convert.positions import Grid, frame_grid, position_rule

TIME_TABLE = Op(lambda x: (x[:, :, None, None],), lambda x: (x[:, :, 0, 0],))

DIALECTS = ("official", "huggingface", "mmaction")
# Names in each of ``DIALECTS``.
CLS = ("model.cls_token", "timesformer.embeddings.cls_token", "backbone.cls_token")
SPACE = ("model.pos_embed", "timesformer.embeddings.position_embeddings", "backbone.pos_embed")
TIME = ("model.time_embed", "timesformer.embeddings.time_embeddings", "backbone.time_embed")
PATCHES = (
    "model.patch_embed.proj",
    "timesformer.embeddings.patch_embeddings.projection",
    "backbone.patch_embed.projection",
)
BLOCK = (
    "model.blocks.{i}",
    "timesformer.encoder.layer.{i}",
    "backbone.transformer_layers.layers.{i}",
)
IMAGE = "patch_embed.projection.weight"  # of MMAction2's image model, without "backbone."
NORM = ("model.norm", "timesformer.layernorm", "backbone.norm")
HEAD = ("model.head", "classifier", "cls_head.fc_cls")
# Parts of a block with divided attention: in this package, and in each of ``DIALECTS``. A star is
# weight or bias, by default the last part of a name.
PARTS = """
space.norm       norm1               layernorm_before                  attentions.1.norm
space.attn.qkv   attn.qkv            attention.attention.qkv           attentions.1.attn.in_proj_*
space.attn.proj  attn.proj           attention.output.dense            attentions.1.attn.out_proj
time.norm        temporal_norm1      temporal_layernorm                attentions.0.norm
time.attn.qkv    temporal_attn.qkv   temporal_attention.attention.qkv  attentions.0.attn.in_proj_*
time.attn.proj   temporal_attn.proj  temporal_attention.output.dense   attentions.0.attn.out_proj
time.fc          temporal_fc         temporal_dense                    attentions.0.temporal_fc
norm             norm2               layernorm_after                   ffns.0.norm
mlp.fc1          mlp.fc1             intermediate.dense                ffns.0.layers.0.0
mlp.fc2          mlp.fc2             output.dense                      ffns.0.layers.1
"""
# The same with a single attention.
UNDIVIDED = {
    "attentions.1.norm": "norms.0",
    "attentions.1": "attentions.0",
    "ffns.0.norm": "norms.1",
}


def _rules(dialect: str, attention: str, grid: Grid) -> list[Rule]:
    ours, column = "backbone.encoders.0", DIALECTS.index(dialect)
    rules = [
        Rule((f"{PATCHES[column]}.weight",), ("backbone.embed.proj.weight",), ADD_TIME),
        Rule((f"{PATCHES[column]}.bias",), ("backbone.embed.proj.bias",)),
        Rule((CLS[column],), (f"{ours}.cls_token",)),
        position_rule(SPACE[column], f"{ours}.pos_embed", grid, True, True, axes="hw"),
    ]
    if attention != "space_only":
        rules.append(Rule((TIME[column],), (f"{ours}.pos_embed.t",), TIME_TABLE))
    for target, *sources in map(str.split, PARTS.strip().splitlines()):
        source = sources[column].replace("*", "{kind}")
        if attention != "divided_space_time":
            if target.startswith("time."):
                continue
            target = target.replace("space.", "joint.")
            for divided, single in UNDIVIDED.items():
                source = source.replace(divided, single)
        target = target if target.startswith(("norm", "mlp.")) else f"sublayers.{target}"
        rules += linear(f"{BLOCK[column]}.{source}", f"{ours}.blocks.{{i}}.{target}")
    rules += linear(NORM[column], f"{ours}.norm")
    return rules + linear(HEAD[column], "cls_head.fc_cls", optional=True)


def from_timesformer(
    state: Mapping[str, Tensor], grid: Grid | None = None, meta: Mapping | None = None
) -> Conversion:
    """Convert the weights of a TimeSformer in any of ``DIALECTS``."""
    if IMAGE in state:
        state = {f"backbone.{name}": value for name, value in state.items()}
    column = next((i for i, name in enumerate(CLS) if name in state), 0)
    dialect, space = DIALECTS[column], SPACE[column]
    heads = read_num_heads(meta or {}, ("gelu",)) if dialect == "huggingface" else None
    attention = "joint_space_time" if TIME[column] in state else "space_only"
    if any(part in name for name in state for part in ("temporal_fc", "temporal_dense")):
        attention = "divided_space_time"
    count = state[space].shape[1] - 1 if space in state else 1
    result = apply_rules(state, _rules(dialect, attention, frame_grid(count, grid)))
    result.model, result.scheme, result.num_heads = "TimeSformer", attention, heads
    return result


def to_timesformer(state: Mapping[str, Tensor], attention: str, dialect: str = "official") -> State:
    """Convert back.

    Args:
        state: Weights as returned by ``from_timesformer``.
        attention: Scheme, ``'space_only'``, ``'joint_space_time'`` or ``'divided_space_time'``.
        dialect: One of ``DIALECTS``.
    """
    rules = [rule.reversed() for rule in _rules(dialect, attention, (1, 1, 1))]
    return apply_rules(state, rules).state

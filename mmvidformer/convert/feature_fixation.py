"""The official linear video transformer with feature fixation to this package's."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.keymap import (
    ADD_TIME,
    Conversion,
    Op,
    Rule,
    apply_rules,
    linear,
    strip_prefixes,
)

# Prefixes of the backbone in a checkpoint of the complete model.
PREFIXES = ("module.", "base_model.")
HEAD = "consensus.mlp_head."
# Layers that the official forward pass does not use.
UNUSED = (r"new_fc\..*", r"head\..*")
TIME_TABLE = Op(lambda x: (x[..., None, :],), lambda x: (x[..., 0, :],))

# Sub-layers with the official names of their attention and its norm, by attention type.
SUBLAYERS = {
    "time_space": {"time": ("temporal_attn", "temporal_norm1"), "space": ("attn", "norm1")},
    "joint": {"joint": ("attn", "norm1")},
}
# Prefix of the gates within a sub-layer.
GATES = "attn.prepare.fixation.gates."
# Official names of the gates and this package's, by fixation scheme.
OFFICIAL_GATES = {"qkv_shared": {"pgate": "qk"}, "qkv": {"q_gate": "q", "k_gate": "k"}, None: {}}


def key_map(attention: str, fixation: str | None) -> list[Rule]:
    """Return the rows of a model, given keys of ``SUBLAYERS`` and ``OFFICIAL_GATES``."""
    ours = "backbone.encoders.0"
    rules = [
        Rule(("patch_embed.proj.weight",), ("backbone.embed.proj.weight",), ADD_TIME),
        Rule(("patch_embed.proj.bias",), ("backbone.embed.proj.bias",)),
        *linear("patch_embed.norm", "backbone.embed.norm"),
        Rule(("temp_embed",), (f"{ours}.pos_embed.t",), TIME_TABLE),
    ]
    parts = {"norm2": "norm", "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2"}
    parts["mlp.dwconv.dwconv"] = "mlp.depthwise.conv"
    for sublayer, (attn, norm) in SUBLAYERS[attention].items():
        parts[norm] = f"sublayers.{sublayer}.norm"
        for layer in ("qkv", "proj"):
            parts[f"{attn}.{layer}"] = f"sublayers.{sublayer}.attn.{layer}"
        for theirs, gate in OFFICIAL_GATES[fixation].items():
            parts[f"{attn}.{theirs}"] = f"sublayers.{sublayer}.{GATES}{gate}"
    for source, target in parts.items():
        rules += linear(f"blocks.{{i}}.{source}", f"{ours}.blocks.{{i}}.{target}")
    rules += linear("norm", f"{ours}.norm")
    for source, target in (("0", "norm"), ("1", "fc_hidden"), ("4", "fc_cls")):
        rules += linear(f"{HEAD}{source}", f"cls_head.{target}", optional=True)
    return rules


def from_feature_fixation(state: Mapping[str, Tensor]) -> Conversion:
    """Convert the weights of an official model, with or without head."""
    state = strip_prefixes(state, PREFIXES)
    attention = "time_space" if any(".temporal_attn." in name for name in state) else "joint"
    layers = {part for name in state for part in name.split(".")}
    fixation = next((name for name, own in OFFICIAL_GATES.items() if layers & set(own)), None)
    result = apply_rules(state, key_map(attention, fixation), UNUSED)
    result.model, result.scheme = "FeatureFixationTransformer", attention
    result.settings = {"fixation": fixation}
    head_dims = [len(x) for name, x in result.state.items() if GATES in name]
    if head_dims:
        result.num_heads = len(result.state["backbone.encoders.0.norm.weight"]) // head_dims[0]
    result.notes.append(
        "shifts and kernel have no weights; those of the released settings for Something-Something "
        "are assumed. The settings for Kinetics have the temporal shift "
        "dict(type='temporal', divisor=8, segment=8)"
    )
    return result

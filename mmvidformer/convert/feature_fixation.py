"""The official linear video transformer with feature fixation to this package's."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.keymap import (
    ADD_TIME,
    Conversion,
    Op,
    Rule,
    apply_rules,
    has,
    key_map,
    strip_prefixes,
)

# Prefixes of the backbone in a checkpoint of the complete model.
PREFIXES = ("module.", "base_model.")
# Layers that the official forward pass does not use.
UNUSED = (r"new_fc\..*", r"head\..*")
OPS = {
    "backbone.embed.proj.weight": ADD_TIME,
    "backbone.encoders.0.pos_embed.t": Op(lambda x: (x[..., None, :],), lambda x: (x[..., 0, :],)),
}

# Sub-layers with the official names of their attention and its norm, by attention type.
SUBLAYERS = {
    "time_space": {"time": ("temporal_attn", "temporal_norm1"), "space": ("attn", "norm1")},
    "joint": {"joint": ("attn", "norm1")},
}
# Official names of the gates by fixation.
OFFICIAL_GATES = {"qkv_shared": ["pgate"], "qkv": ["q_gate", "k_gate"]}


def rules(attention: str, fixation: str | None) -> list[Rule]:
    """Return the rows of a model, given keys of ``SUBLAYERS`` and ``OFFICIAL_GATES``, or None."""
    sections = ("sublayer", fixation) if fixation else ("sublayer",)
    found = key_map("feature_fixation", "model", ops=OPS)
    for sublayer, (attn, norm) in SUBLAYERS[attention].items():
        found += key_map("feature_fixation", *sections, sublayer=sublayer, attn=attn, norm=norm)
    return found


def from_feature_fixation(state: Mapping[str, Tensor]) -> Conversion:
    """Convert the weights of an official model, with or without head."""
    state = strip_prefixes(state, PREFIXES)
    attention = "time_space" if has(state, "temporal_attn") else "joint"
    layers = {part for name in state for part in name.split(".")}
    fixation = next((name for name, own in OFFICIAL_GATES.items() if layers & set(own)), None)
    result = apply_rules(state, rules(attention, fixation), UNUSED)
    result.model, result.scheme = "FeatureFixationTransformer", attention
    result.settings = {"fixation": fixation}
    head_dims = [len(x) for name, x in result.state.items() if ".gates." in name]
    if head_dims:
        result.num_heads = len(result.state["backbone.encoders.0.norm.weight"]) // head_dims[0]
    result.notes.append(
        "shifts and kernel have no weights; those of the released settings for Something-Something "
        "are assumed. The settings for Kinetics have the temporal shift "
        "dict(type='temporal', divisor=8, segment=8)"
    )
    return result

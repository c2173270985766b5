"""Weights of HORST's official classes under this package's names.

There are no public checkpoints, so only the reference outputs need this: those of a layer, of a
stack of layers (``layers.b0l0`` is layer 0 of block 0), and of two classifiers.
"""

import re
from collections.abc import Mapping

from torch import Tensor

from mmvidformer.checkpoints.keymap import Conversion, Rule, apply_rules, read_rows, strip_prefixes

PREFIXES = ("module.",)
# Layers that the official forward pass does not use.
UNUSED = (r"layers\.\d+\.(agg_f|mha\.v_post_f)\..*",)

# Convolutions without bias, followed by a norm: official name, name in this package.
CONV_NORMS = {
    "encoder": "encode",
    "out_t": "readout.out",
    "mha.q_pre_f": "query",
    "mha.k_pre_f": "key",
    "mha.v_pre_f": "value",
}
# Convolutions with bias, likewise.
CONVS = {
    "out_t.3.f.1": "readout.excite.fc1",
    "out_t.3.f.3": "readout.excite.fc2",
    "mha.sf_Q.f.0": "attend.states.filter.conv",
    "mha.sf_K.f.0": "attend.filter.conv",
}
LSTM = [f"{kind}_{side}_l0" for kind in ("weight", "bias") for side in ("ih", "hh")]
NORM_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
# Layers of each classifier, likewise.
CLASSIFIERS = {
    "linear": {
        "c_a.2": "action",
        "c_n.2": "noun",
        "c_v.2": "verb",
        "c_a2n": "action_to_noun",
        "c_a2v": "action_to_verb",
    },
    "unrolling": {
        "c_a.fuse_ev.0": "start.fc",
        "c_a.fuse_ev.1": "start.norm",
        "c_a.classifier.0": "action",
        "encoder_n.2": "xi_noun",
        "encoder_v.2": "xi_verb",
        "c_n": "noun",
        "c_v": "verb",
        "c_a2n": "action_to_noun",
        "c_a2v": "action_to_verb",
    },
}


def layer_rules(theirs: str = "layers.{i}.", ours: str = "neck.layers.{i}.") -> list[Rule]:
    """Return the key map of a layer, given the prefixes of its names."""
    convs = {f"{target}.*": f"{source}.*" for source, target in CONVS.items()}
    for source, target in CONV_NORMS.items():
        convs |= {
            f"{target}.conv.weight": f"{source}.0.weight",
            f"{target}.norm.*": f"{source}.1.*",
        }
    return read_rows({ours + name: theirs + source for name, source in convs.items()})


def classifier_rules(kind: str) -> list[Rule]:
    """Return the key map of a classifier, given its name in ``CLASSIFIERS``."""
    rows = {f"{target}.*": f"{source}.*" for source, target in CLASSIFIERS[kind].items()}
    if kind == "unrolling":
        rows |= {f"unroll.{name}": f"c_a.unrolling.{name}" for name in LSTM}
        rows |= {f"start.norm.{name}": f"c_a.fuse_ev.1.{name}" for name in NORM_STATISTICS}
    return read_rows({"cls_head.classifier": rows})


def from_horst(state: Mapping[str, Tensor]) -> Conversion:
    """Convert a layer, a stack or a classifier to the neck or the head of a recognizer."""
    state = strip_prefixes(state, PREFIXES)
    if "encoder.0.weight" in state:  # a single layer
        parts = ("encoder.", "out_t.", "mha.", "agg_f.")
        state = {f"layers.0.{k}" if k.startswith(parts) else k: v for k, v in state.items()}
    found = {match for name in state for match in re.findall(r"^layers\.b(\d+)l(\d+)\.", name)}
    for number, (block, layer) in enumerate(sorted(found, key=lambda ids: [*map(int, ids)])):
        stem = re.compile(rf"^layers\.b{block}l{layer}\.")
        state = {stem.sub(f"layers.{number}.", name): value for name, value in state.items()}
    rules = layer_rules() if any(name.startswith("layers.") for name in state) else []
    if "c_a2n.weight" in state:
        unrolling = any(name.startswith("c_a.unrolling.") for name in state)
        rules += classifier_rules("unrolling" if unrolling else "linear")
    return apply_rules(state, rules, UNUSED)

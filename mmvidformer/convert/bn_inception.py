"""Public weights of BN-Inception (ImageNet, or RULSTM's TSN) to this package's names."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from mmvidformer.convert.io import load_checkpoint
from mmvidformer.convert.keymap import Conversion, Rule, State, apply_rules, linear, strip_prefixes

# A TSN checkpoint contains the network in two wrappers.
PREFIXES = ("module.", "base_model.")
# Classifiers of ImageNet and the TSN; the model uses the map before them.
IGNORED = (r"(last_linear|fc|new_fc)\.(weight|bias)",)

BLOCKS = ("3a", "3b", "3c", "4a", "4b", "4c", "4d", "4e", "5a", "5b")
# Blocks that halve the map have neither a 1 x 1 branch nor a projection after the pool.
HALVING = ("3c", "4e")
STEM = {"conv1_7x7_s2": "stem.0", "conv2_3x3_reduce": "stem.2", "conv2_3x3": "stem.3"}
BRANCHES = {
    "1x1": "1x1",
    "3x3_reduce": "3x3.0",
    "3x3": "3x3.1",
    "double_3x3_reduce": "double_3x3.0",
    "double_3x3_1": "double_3x3.1",
    "double_3x3_2": "double_3x3.2",
    "pool_proj": "pool.1",
}


def _rules() -> list[Rule]:
    layers = dict(STEM)
    for block in BLOCKS:
        for theirs, ours in BRANCHES.items():
            if block not in HALVING or theirs not in ("1x1", "pool_proj"):
                layers[f"inception_{block}_{theirs}"] = f"blocks.{block}.branches.{ours}"
    rules = []
    for theirs, ours in layers.items():
        rules += linear(theirs, f"backbone.{ours}.conv")
        rules += linear(f"{theirs}_bn", f"backbone.{ours}.bn")
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            optional = name == "num_batches_tracked"  # unknown to PyTorch before 0.4.1
            names = (f"{theirs}_bn.{name}",), (f"backbone.{ours}.bn.{name}",)
            rules.append(Rule(*names, optional=optional))
    return rules


def is_bn_inception(state: Mapping[str, Tensor]) -> bool:
    """Return whether the names are those of a public BN-Inception, alone or in a TSN."""
    names = set(strip_prefixes(state, PREFIXES))
    return {"conv1_7x7_s2.weight", "inception_5b_pool_proj.weight"} <= names


def from_bn_inception(state: Mapping[str, Tensor]) -> Conversion:
    """Convert a network without its classifier.

    Args:
        state: State dict; for RULSTM's TSN checkpoint, the content of ``state_dict``.

    Returns:
        The weights as the backbone of a recognizer.
    """
    return apply_rules(strip_prefixes(state, PREFIXES), _rules(), IGNORED)


def load_bn_inception(path: str | Path) -> State:
    """Read a file of public weights with the names of the ``BNInception`` backbone.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged, or names are missing or unknown.
    """
    try:
        state = from_bn_inception(load_checkpoint(path).state).state
    except ValueError as error:
        raise ValueError(f"{path} as BN-Inception: {error}") from error
    return strip_prefixes(state, ("backbone.",))

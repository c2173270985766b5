"""Public weights of BN-Inception, ImageNet's or RULSTM's TSN, to ours and back."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from mmvidformer.convert.io import load_checkpoint
from mmvidformer.convert.keymap import Conversion, Rule, State, apply_rules, strip_prefixes

# A TSN checkpoint wraps the network twice.
PREFIXES = ("module.", "base_model.")
# Classifiers, of ImageNet or of the TSN; what is used is the map before them.
IGNORED = (r"(last_linear|fc|new_fc)\.(weight|bias)",)

BLOCKS = ("3a", "3b", "3c", "4a", "4b", "4c", "4d", "4e", "5a", "5b")
# Blocks that halve the map have neither a branch of 1 x 1 nor a projection behind the pool.
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
        rules += [
            Rule((f"{theirs}.{kind}",), (f"backbone.{ours}.conv.{kind}",))
            for kind in ("weight", "bias")
        ]
        rules += [
            # Files older than PyTorch 0.4.1 do not count batches.
            Rule(
                (f"{theirs}_bn.{kind}",),
                (f"backbone.{ours}.bn.{kind}",),
                optional=kind == "num_batches_tracked",
            )
            for kind in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
        ]
    return rules


def is_bn_inception(state: Mapping[str, Tensor]) -> bool:
    """Whether names are those of a public BN-Inception, alone or in a TSN."""
    names = set(strip_prefixes(state, PREFIXES))
    return {"conv1_7x7_s2.weight", "inception_5b_pool_proj.weight"} <= names


def from_bn_inception(state: Mapping[str, Tensor]) -> Conversion:
    """Convert a network without its classifier.

    Args:
        state: State dict; of RULSTM's TSN checkpoint, the content of ``state_dict``.

    Returns:
        The weights as a recogniser's backbone.

    Raises:
        ValueError: If names are missing or unknown.
    """
    return apply_rules(strip_prefixes(state, PREFIXES), _rules(), IGNORED)


def load_bn_inception(path: str | Path) -> State:
    """Read a file of public weights under the names of our bare backbone.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, or names are missing or unknown.
    """
    try:
        state = from_bn_inception(load_checkpoint(path).state).state
    except ValueError as error:
        raise ValueError(f"{path} as BN-Inception: {error}") from error
    return strip_prefixes(state, ("backbone.",))


def to_bn_inception(state: Mapping[str, Tensor]) -> State:
    """Convert back, to the names of the ImageNet model without classifier.

    Args:
        state: Weights as ``from_bn_inception`` gives them.

    Raises:
        ValueError: If names are missing or unknown.
    """
    return apply_rules(state, [rule.reversed() for rule in _rules()]).state

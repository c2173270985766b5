"""Public weights of BN-Inception (ImageNet, or RULSTM's TSN), whose names the model has, too."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from mmvidformer.convert.io import load_checkpoint
from mmvidformer.convert.keymap import Conversion, Rule, State, apply_rules, strip_prefixes

# A TSN checkpoint contains the network in two wrappers.
PREFIXES = ("module.", "base_model.")
# Classifiers of ImageNet and the TSN; the model uses the map before them.
IGNORED = (r"(last_linear|fc|new_fc)\.(weight|bias)",)

# Convolutions of the blocks. Those that halve the map have neither the first nor the last.
BLOCKS = ("3a", "3b", "3c", "4a", "4b", "4c", "4d", "4e", "5a", "5b")
BRANCHES = ("3x3_reduce", "3x3", "double_3x3_reduce", "double_3x3_1", "double_3x3_2")
LAYERS = [
    *("conv1_7x7_s2", "conv2_3x3_reduce", "conv2_3x3"),
    *(f"inception_{block}_{name}" for block in BLOCKS for name in BRANCHES),
    *(f"inception_{b}_{n}" for b in BLOCKS for n in ("1x1", "pool_proj") if b not in ("3c", "4e")),
]
NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def _rules() -> list[Rule]:
    names = [f"{layer}.{name}" for layer in LAYERS for name in ("weight", "bias")]
    names += [f"{layer}_bn.{name}" for layer in LAYERS for name in NORM]
    # PyTorch before 0.4.1 had no num_batches_tracked.
    return [
        Rule((name,), (f"backbone.{name}",), optional=name.endswith("tracked")) for name in names
    ]


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

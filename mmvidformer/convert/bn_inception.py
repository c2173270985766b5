"""Public weights of BN-Inception (ImageNet, or RULSTM's TSN), whose names the model has, too."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.keymap import Conversion, strip_prefixes

# A TSN checkpoint contains the network in two wrappers.
PREFIXES = ("module.", "base_model.")
# Classifiers of ImageNet and the TSN; the model uses the map before them.
IGNORED = ("last_linear.", "fc.", "new_fc.")


def from_bn_inception(state: Mapping[str, Tensor]) -> Conversion:
    """Convert a network without its classifier, to the backbone of a recognizer.

    Missing and unknown names are errors when the backbone loads them.
    """
    state = strip_prefixes(state, PREFIXES)
    ignored = [name for name in state if name.startswith(IGNORED)]
    kept = {f"backbone.{name}": state[name] for name in state if name not in ignored}
    return Conversion(kept, ignored=ignored)

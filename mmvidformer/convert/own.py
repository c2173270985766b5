"""Our own checkpoints, as a source like the others."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.keymap import Conversion

# A weight that each of our backbones has, and the neck that is made to train.
SIGNS = ("encoder.blocks.0.sublayers.", "blocks.5b.branches.", "layers.0.encode.conv.")
BACKBONE = ("embed.", "encoder.", "temporal_encoder.", "stem.", "blocks.")
NECK = ("layers.",)
RECOGNISER = ("backbone.", "neck.", "cls_head.")
IGNORED = ("data_preprocessor.",)


def is_own(state: Mapping[str, Tensor]) -> bool:
    """Whether names are those of a recogniser, a backbone or a neck of ours."""
    return any(sign in name for name in state for sign in SIGNS)


def from_own(state: Mapping[str, Tensor], meta: Mapping | None = None) -> Conversion:
    """Take a recogniser, or a bare backbone or neck, of ours.

    Args:
        state: Its state dict.
        meta: What the converter wrote beside it; a checkpoint of a training run has none of it.

    Raises:
        ValueError: If a name belongs to neither.
    """
    result = Conversion({})
    unknown = []
    for name, value in state.items():
        if name.startswith(IGNORED):
            result.ignored.append(name)
        elif name.startswith(RECOGNISER):
            result.state[name] = value
        elif name.startswith(BACKBONE):
            result.state[f"backbone.{name}"] = value
        elif name.startswith(NECK):
            result.state[f"neck.{name}"] = value
        else:
            unknown.append(name)
    if unknown:
        raise ValueError(f"names that are no part of a recogniser of ours: {unknown}")
    settings = (meta or {}).get("backbone", {})
    result.scheme = settings.get("scheme", settings.get("attention"))
    result.num_heads = settings.get("arch", {}).get("num_heads")
    return result

"""Our own checkpoints, as a source like the others."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.keymap import Conversion

BACKBONE = ("embed.", "encoder.", "temporal_encoder.")
RECOGNISER = ("backbone.", "cls_head.")
IGNORED = ("data_preprocessor.",)


def from_own(state: Mapping[str, Tensor], meta: Mapping | None = None) -> Conversion:
    """Take a recogniser or a bare backbone of ours.

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
        else:
            unknown.append(name)
    if unknown:
        raise ValueError(f"names that are no part of a recogniser of ours: {unknown}")
    settings = (meta or {}).get("backbone", {})
    result.scheme = settings.get("scheme", settings.get("attention"))
    result.num_heads = settings.get("arch", {}).get("num_heads")
    return result

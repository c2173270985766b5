"""Weights of other projects, converted when a model of this package loads them.

This package's recognizers translate the names of a state dict before they load it. So ``load_from``
of MMEngine and ``load_state_dict`` take a checkpoint in any of ``convert.FORMATS``. The tools and
``PreflightHook`` convert for other recognizers with a backbone of this package. All other models
load what they load without it.
"""

from typing import Any

from mmengine.logging import print_log
from torch import nn

from mmvidformer.layers.linear import LoraLinear, merge_lora


def convert_content(content: Any, source: str) -> Any:
    """Convert the content of a checkpoint if it is another project's.

    Args:
        content: As from ``torch.load``: a state dict, or a dictionary that holds one.
        source: Its file or address, for messages and the table of published checkpoints.

    Returns:
        ``state_dict`` with this package's names, and ``meta`` with the known properties of the
        model and its data; ``content`` if its names are this package's or unknown.

    Raises:
        ValueError: If it lacks weights of its format.
    """
    from mmvidformer.checkpoints import formats, io
    from mmvidformer.checkpoints.info import read_info
    from mmvidformer.checkpoints.published import row_of

    try:
        checkpoint = io.unwrap(content, source)
        kind = formats.recognize(checkpoint.state)
    except ValueError:
        return content
    if kind == "mmvidformer":
        row = row_of(source)
        meta = row and checkpoint.meta | read_info(checkpoint.meta, row)
        return {"state_dict": checkpoint.state, "meta": meta} if row else content
    kind, result = formats.convert_checkpoint(checkpoint, source)
    title, count = formats.FORMATS[kind].title, len(result.state)
    print_log(f"{source}: converted {count} tensors of {title}", logger="current")
    return {"state_dict": result.state, "meta": formats.meta_of(kind, result)}


def convert_for(model: nn.Module, checkpoint: dict, source: str) -> None:
    """Convert a checkpoint in place, if the backbone of the model is this package's.

    Updates of LoRA are merged, unless the model has it.
    """
    if _is_own(getattr(model, "backbone", None)):
        found = convert_content(checkpoint, source)
        if found is not checkpoint:
            checkpoint.clear()
            checkpoint.update(found)
        if not any(isinstance(part, LoraLinear) for part in model.modules()):
            merge_lora(checkpoint.get("state_dict", checkpoint))


def _is_own(module: object) -> bool:
    kinds = type(module).__mro__  # or a subclass of the user's
    return any(kind.__module__.startswith("mmvidformer.models.") for kind in kinds)


class ConvertsWeights(nn.Module):
    """Base class of recognizers that convert what they load if their backbone is this package's."""

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args: Any) -> None:
        own = {k.removeprefix(prefix): x for k, x in state_dict.items() if k.startswith(prefix)}
        if _is_own(getattr(self, "backbone", None)):
            found = convert_content(own, f"the state dict of {type(self).__name__}")
            if found is not own:
                for name in own:
                    del state_dict[prefix + name]
                state_dict.update({prefix + k: x for k, x in found["state_dict"].items()})
        super()._load_from_state_dict(state_dict, prefix, *args)

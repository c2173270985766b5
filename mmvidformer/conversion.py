"""Weights of other projects, converted when a model of this package loads them.

A module whose ``backbone`` is one of this package's translates the names of a state dict before it
loads it. So ``load_from`` of MMEngine and ``load_state_dict`` take a checkpoint in any of
``convert.FORMATS``, and other models load what they load without this package.
"""

from typing import Any

from mmengine.logging import print_log
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook


def convert_content(content: Any, source: str) -> Any:
    """Convert the content of a checkpoint if it is another project's.

    Args:
        content: As from ``torch.load``: a state dict, or a dictionary that holds one.
        source: Its file or address, for messages and the table of published checkpoints.

    Returns:
        ``state_dict`` with this package's names, and ``meta`` with what is known of the model and
        its data; ``content`` if its names are this package's or unknown.

    Raises:
        ValueError: If it lacks weights of its format.
    """
    from mmvidformer.convert import formats, io
    from mmvidformer.convert.info import read_info
    from mmvidformer.convert.published import row_of

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
    """Convert a checkpoint in place, if the backbone of the model is this package's."""
    if _is_own(getattr(model, "backbone", None)):
        found = convert_content(checkpoint, source)
        if found is not checkpoint:
            checkpoint.clear()
            checkpoint.update(found)


def register() -> None:
    """Let modules with a backbone of this package convert what they load."""
    register_module_module_registration_hook(_add_hook)


def _is_own(module: object) -> bool:
    kinds = type(module).__mro__  # or a subclass of the user's
    return any(kind.__module__.startswith("mmvidformer.models.") for kind in kinds)


def _add_hook(parent: nn.Module, name: str, child: object) -> None:
    if name == "backbone" and _is_own(child):
        parent.register_load_state_dict_pre_hook(_convert_state)


def _convert_state(module: nn.Module, state: dict, prefix: str, *_: object) -> None:
    own = {name.removeprefix(prefix): x for name, x in state.items() if name.startswith(prefix)}
    found = convert_content(own, f"the state dict of {type(module).__name__}")
    if found is not own:
        for name in own:
            del state[prefix + name]
        state.update({prefix + name: value for name, value in found["state_dict"].items()})

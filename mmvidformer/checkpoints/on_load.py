"""Weights of other projects, converted when a model of this package loads them.

This package's recognizers translate the names of a state dict before they load it. So ``load_from``
of MMEngine and ``load_state_dict`` take a checkpoint in any of ``formats.FORMATS``. The tools and
``PreflightHook`` convert for other recognizers with a backbone of this package. All other models
load what they load without it.
"""

import logging
from collections.abc import Mapping
from typing import Any

from torch import is_tensor, nn

from mmvidformer.checkpoints.formats import FORMATS, convert_checkpoint, meta_of, recognize
from mmvidformer.checkpoints.metadata import read_info
from mmvidformer.checkpoints.published import row_of
from mmvidformer.checkpoints.reading import STATE_KEYS, find_weights, plain_names, unwrap
from mmvidformer.errors import UserError
from mmvidformer.layers.linear import LoraLinear, merge_lora

logger = logging.getLogger("mmvidformer")


def convert_content(content: Any, source: str) -> Any:
    """Convert the content of a checkpoint if it is another project's.

    Args:
        content: As from ``torch.load``: a state dict, or a dictionary that holds one.
        source: Its file or address, for messages and the table of published checkpoints.

    Returns:
        ``state_dict`` with this package's names, and ``meta`` with the known properties of the
        model and its data; ``content`` if its names are this package's or unknown.

    Raises:
        UserError: If it lacks weights of its format.
    """
    try:
        checkpoint = unwrap(content, source)
        name = recognize(checkpoint.state)
    except ValueError:
        return content
    if name == "mmvidformer":
        row = row_of(source)
        if row is None:
            return content
        meta = checkpoint.meta | read_info(checkpoint.meta, row)
        return {"state_dict": checkpoint.state, "meta": meta}
    name, conversion = convert_checkpoint(checkpoint, source)
    title, count = FORMATS[name].title, len(conversion.state)
    logger.info("%s: converted %d tensors of %s", source, count, title)
    return {"state_dict": conversion.state, "meta": meta_of(name, conversion)}


def convert_for(model: nn.Module, checkpoint: dict, source: str) -> None:
    """Put weights under ``state_dict`` by the names of a model, in place, whatever wraps them.

    If the backbone of the model is this package's, weights of other projects are converted, and
    updates of LoRA are merged, unless the model has it.

    Raises:
        UserError: If the checkpoint has no weights, or lacks some of its format.
    """
    is_ours = _is_ours(getattr(model, "backbone", None))
    if is_ours:
        converted = convert_content(checkpoint, source)
        if converted is not checkpoint:
            checkpoint.clear()
            checkpoint.update(converted)
    weights = find_weights(checkpoint)
    if not isinstance(weights, Mapping) or not any(map(is_tensor, weights.values())):
        keys = ", ".join(map(str, [*checkpoint][:5]))
        raise UserError(
            f"{source} has no weights under a known key ({', '.join(STATE_KEYS)}); it has {keys}"
        )
    state = _with_names_of(model, weights)
    if weights is checkpoint:
        checkpoint.clear()
    checkpoint["state_dict"] = state
    if is_ours and not any(isinstance(part, LoraLinear) for part in model.modules()):
        merge_lora(state)


def _with_names_of(model: nn.Module, weights: Mapping[str, Any]) -> dict[str, Any]:
    """Remove a prefix of all names, such as Lightning's ``model.``, if no name fits without it."""
    names = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
    state = plain_names(weights)
    for prefix in ("model.", "module."):
        shorter = {name.removeprefix(prefix): value for name, value in state.items()}
        if not names & state.keys() and names & shorter.keys():
            return shorter
    return state


class ConvertsWeights(nn.Module):
    """Base class of recognizers that convert what they load if their backbone is this package's."""

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args: Any) -> None:
        if _is_ours(getattr(self, "backbone", None)):
            self._convert_in_place(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _convert_in_place(self, state_dict: dict, prefix: str) -> None:
        weights = {
            name.removeprefix(prefix): value
            for name, value in state_dict.items()
            if name.startswith(prefix)
        }
        converted = convert_content(weights, f"the state dict of {type(self).__name__}")
        if converted is weights:
            return
        for name in weights:
            del state_dict[prefix + name]
        for name, value in converted["state_dict"].items():
            state_dict[prefix + name] = value


def _is_ours(module: object) -> bool:
    classes = type(module).__mro__  # or a subclass of the user's
    return any(cls.__module__.startswith("mmvidformer.models.") for cls in classes)

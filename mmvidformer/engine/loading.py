"""Recognisers outside a runner: built from a config, with the weights of a checkpoint."""

from collections.abc import Mapping, Sequence

import torch
from mmengine.config import Config
from mmengine.runner import CheckpointLoader
from torch import Tensor, nn

from mmvidformer.config import config_scope
from mmvidformer.registry import MODELS


def load_recognizer(
    cfg: Config, checkpoint: str | None, device: str | torch.device = "cpu", head: bool = True
) -> nn.Module:
    """Build the recogniser of a config, with the weights of a checkpoint, for evaluation.

    Args:
        cfg: A recognition config.
        checkpoint: File or address, as MMEngine takes it; None: initial weights.
        device: Where to put the model.
        head: Whether the head's weights are needed too.

    Returns:
        The model in evaluation mode.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the weights are not those of the config's model; names what differs.
    """
    with config_scope(cfg):
        model = MODELS.build(cfg.model)
    if checkpoint is None:
        model.init_weights()
        return model.to(device).eval()
    loaded = CheckpointLoader.load_checkpoint(checkpoint, map_location="cpu", logger="silent")
    state = loaded.get("state_dict", loaded)
    if not head:
        state = {name: value for name, value in state.items() if not name.startswith("cls_head.")}
    missing, unexpected = load_weights(model, state, checkpoint)
    missing = [name for name in missing if head or not name.startswith("cls_head.")]
    if missing or unexpected:
        raise ValueError(
            f"{checkpoint} is of another model than the config: it lacks {some(missing)}, "
            f"and has besides {some(unexpected)}"
        )
    return model.to(device).eval()


def load_weights(
    model: nn.Module, state: Mapping[str, Tensor], source: str
) -> tuple[list[str], list[str]]:
    """Load what there is into a model.

    Args:
        model: The model.
        state: Tensors by the model's names.
        source: Where they are from, for messages.

    Returns:
        Names that the state lacks, and names that the model lacks.

    Raises:
        ValueError: If tensors have other shapes; names them.
    """
    try:
        wrong = model.load_state_dict(state, strict=False)
    except RuntimeError as error:  # one a line
        differ = [line.strip(" \t.") for line in str(error).splitlines()[1:]]
        raise ValueError(f"{source} is of another model than the config: {some(differ)}") from None
    return wrong.missing_keys, wrong.unexpected_keys


def some(names: Sequence[str], most: int = 4) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "nothing") + more

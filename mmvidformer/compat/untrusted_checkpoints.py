"""MMEngine 0.10 trusts checkpoints more than it need.

Symptom: a file from a stranger runs code in two ways that ``weights_only`` does not stop. On
resume MMEngine executes the text under ``meta['config']`` as a Python config
(``Runner.resume``; its own checkpoints have no such key, those of MMCV 1 had), and weights from an
address are read by ``torch.hub`` with ``weights_only=False`` (``CheckpointLoader``). Where PyTorch
does refuse a file, its message recommends to switch the safety off. There is no upstream
report yet. Here the text is dropped, downloads are read safely, and the message says what to do
instead. Weights in a ``.safetensors`` file, which MMEngine does not read, are read too.
"""

import logging
import pickle
from collections.abc import MutableMapping
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

REMEDY = (
    "Only tensors, numbers, text and plain containers are accepted. If the file is your own, save "
    "its weights as safetensors, or with torch.save(dict(state_dict=model.state_dict()), path)"
)


def load_from_local(filename: str, map_location: str | torch.device | None = None) -> dict:
    """Read a checkpoint file; takes the place of MMEngine's reader of local files.

    Args:
        filename: PyTorch file, or ``.safetensors``.
        map_location: As in ``torch.load``.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a safetensors file is damaged.
    """
    path = Path(filename).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {filename}")
    if path.suffix != ".safetensors":
        return torch.load(path, map_location=map_location, weights_only=True)
    try:
        device = "cpu" if map_location is None or callable(map_location) else str(map_location)
        return dict(state_dict=load_file(path, device=device))
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def needed() -> bool:
    """Whether MMEngine's reader of local files is in place."""
    from mmengine.runner import CheckpointLoader

    return CheckpointLoader._get_checkpoint_loader("a.pth") is not load_from_local


def repair() -> None:
    """Make ``CheckpointLoader`` wary."""
    from mmengine.logging import print_log
    from mmengine.runner import CheckpointLoader, checkpoint

    CheckpointLoader.register_scheme("", loader=load_from_local, force=True)
    checkpoint.load_url = partial(checkpoint.load_url, weights_only=True)
    load = CheckpointLoader.load_checkpoint.__func__

    def load_checkpoint(cls, filename, map_location=None, logger="current"):
        try:
            content = load(cls, filename, map_location, logger)
        except (pickle.UnpicklingError, PermissionError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the system does not let us read the file
            reason = str(error).split("WeightsUnpickler error:")[-1].strip().splitlines()[0]
            raise pickle.UnpicklingError(
                f"{filename} is refused: loading it could run code that it names ({reason}). "
                f"{REMEDY}"
            ) from None
        meta = content.get("meta") if isinstance(content, MutableMapping) else None
        if isinstance(meta, MutableMapping) and meta.pop("config", None) is not None:
            print_log(
                f"{filename}: the text under meta['config'] is left out, since MMEngine would "
                "execute it",
                logger=logger,
                level=logging.WARNING,
            )
        return content

    CheckpointLoader.load_checkpoint = classmethod(load_checkpoint)

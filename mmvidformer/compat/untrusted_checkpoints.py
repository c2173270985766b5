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
import re
from collections.abc import MutableMapping
from functools import partial
from pathlib import Path
from types import ModuleType

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from mmvidformer.compat.finders import after_import

REMEDY = (
    "Only tensors, numbers, text and plain containers are accepted. If the file is your own, save "
    "the weights alone: torch.save(dict(state_dict=model.state_dict()), path), or as safetensors"
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
    """Whether MMEngine is of the versions that were looked at."""
    from mmengine.version import version_info

    return tuple(version_info[:2]) == (0, 10)


def repair() -> None:
    """Make ``CheckpointLoader`` wary once it is imported."""
    after_import("mmengine.runner.checkpoint", _change)


def _change(checkpoint: ModuleType) -> None:
    from mmengine.logging import print_log

    loader = checkpoint.CheckpointLoader
    loader.register_scheme("", loader=load_from_local, force=True)
    checkpoint.load_url = partial(checkpoint.load_url, weights_only=True)
    load = loader.load_checkpoint.__func__

    def load_checkpoint(cls, filename, map_location=None, logger="current"):
        try:
            content = load(cls, filename, map_location, logger)
        except (pickle.UnpicklingError, PermissionError, RuntimeError) as error:
            if getattr(error, "errno", None) is not None:
                raise  # the system does not let us read the file
            if isinstance(error, RuntimeError) and "TorchScript" not in str(error):
                raise
            found = re.search(r"GLOBAL (\S+)", str(error))
            reason = f"names {found[1]}" if found else "is no plain file of torch.save"
            raise pickle.UnpicklingError(
                f"{filename} is refused: it {reason}, and loading it could run code. {REMEDY}"
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

    loader.load_checkpoint = classmethod(load_checkpoint)

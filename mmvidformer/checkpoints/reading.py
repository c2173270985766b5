"""Reading checkpoint files without running code that they contain.

All readers of this package are here. What MMEngine loads itself is guarded in
``checkpoints.mmengine_loader``.
"""

import pickle
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from mmvidformer.checkpoints.arrays import read_msgpack, to_tensor
from mmvidformer.checkpoints.keymap import State
from mmvidformer.checkpoints.training_state import allow_training_state
from mmvidformer.errors import MissingFile, UserError
from mmvidformer.storage.files import read_json

# Files of a HuggingFace folder. The first weights that exist are read, whole or by their index.
# All configs are merged; the later ones win.
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
CONFIGS = ("preprocessor_config.json", "video_preprocessor_config.json", "config.json")
# Keys under which training scripts store the weights, also one inside of the other; the first that
# is there counts. Means of weights come first, as timm and LeVJEPA save them. Of V-JEPA's two
# encoders, the evaluations of the official code read the teacher, ``target_encoder``, or
# ``ema_encoder`` of distilled models.
ENCODERS = ("target_encoder", "ema_encoder", "encoder")
STATES = ("state_dict_ema", "state_dict", "model_state_dict", "model_state", "model", "module")
STATE_KEYS = (*STATES, *ENCODERS)
# How files begin: of zip (PyTorch, npz), pickle from protocol 2 on, and maps of msgpack.
ZIP, PICKLE = b"PK", b"\x80"  # msgpack's empty map is 0x80, too
MAPS = tuple(bytes([first]) for first in (*range(0x81, 0x90), 0xDE, 0xDF))


@dataclass
class Checkpoint:
    """Weights by name, and ``meta``: MMEngine's, or the JSON files of a HuggingFace folder."""

    state: State
    meta: dict = field(default_factory=dict)


class UnreadableCheckpoint(UserError):
    """What is wrong with a checkpoint, in a sentence that names its file."""


def read_content(path: str | Path, device: str | torch.device | None = "cpu") -> object:
    """Read all that a checkpoint contains, without running code.

    The kind of a file is recognized by its first bytes, not by its name.

    Args:
        path: ``.npz``, Flax msgpack, ``.safetensors`` or PyTorch file; or a HuggingFace folder,
            with ``model.safetensors`` or else the index of its shards, or else the same for
            ``pytorch_model.bin``.
        device: Where the tensors of a PyTorch file are put (``map_location`` of ``torch.load``);
            those of others are on the CPU.

    Returns:
        The content of a PyTorch file as it is; of other files a dict with ``state_dict``, and of
        folders one with ``state_dict`` and ``meta``.

    Raises:
        FileNotFoundError: If there is no such file, or no weights in the folder.
        OSError: If the system denies access.
        UserError: If the file is of no such kind, damaged, or could run code, or if there is no
            such device, or too little memory.
    """
    path = Path(path)
    if not path.exists():
        raise MissingFile(f"there is no checkpoint {path}")
    try:
        return _read_folder(path) if path.is_dir() else _read_file(path, device)
    except (UnreadableCheckpoint, FileNotFoundError, PermissionError):  # they name the file
        raise
    except Exception as error:  # libraries raise many types for damaged files
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UnreadableCheckpoint(f"{path} cannot be read: {reason}") from error


def read_mapped(path: str | Path) -> Mapping:
    """Read a PyTorch file whose tensors stay on the disk until they are used.

    Raises:
        Exception: Of many kinds, if the file is damaged.
    """
    with refuse_code(path):
        return torch.load(path, map_location="cpu", mmap=True, weights_only=True)


def is_intact(path: str | Path) -> bool:
    """Whether a PyTorch file is as it was written, by the checksums of its zip archive.

    False for the old format without an archive.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError):
        return False  # NotImplementedError is a RuntimeError


def unwrap(content: object, path: str | Path) -> Checkpoint:
    """Find the state dict in what ``read_content`` returned for a file.

    Raises:
        UserError: If there is none.
    """
    parts = content if isinstance(content, Mapping) else {}
    meta = dict(parts["meta"]) if isinstance(parts.get("meta"), Mapping) else {}
    if "cfg" in parts:  # of the official TimeSformer
        meta["cfg"] = parts["cfg"]
    if isinstance(probes := parts.get("classifiers"), list):  # of V-JEPA, trained side by side
        content = probes[0] if probes else None  # usually one
    content = find_weights(content)
    if not isinstance(content, Mapping):
        got = type(content).__name__
        raise UnreadableCheckpoint(f"{path} must contain a state dict, got {got}")
    if not content:
        raise UnreadableCheckpoint(f"{path} must contain a state dict, but has no tensors")
    others = [name for name, value in content.items() if not isinstance(value, Tensor)]
    if others:
        raise UnreadableCheckpoint(
            f"{path} must contain a state dict, but {others[:5]} are no tensors"
        )
    return Checkpoint(plain_names(content), meta)


def find_weights(content: object) -> object:
    """Return what is inside all wrappers: a state dict, if the file has one."""
    for _ in STATE_KEYS:  # in any order; a wrapper may be its own content
        content = _inside(content)
    return content


def plain_names(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return weights by their names in the model, without those of ``torch.compile`` and DDP."""
    state = {name.replace("_orig_mod.", ""): value for name, value in state.items()}
    if all(name.startswith("module.") for name in state):
        return {name.removeprefix("module."): value for name, value in state.items()}
    return state


def _inside(content: object) -> object:
    """Return what is inside the outermost wrapper, or the content itself if it has none."""
    if isinstance(content, Mapping):
        for name in STATE_KEYS:
            if isinstance(content.get(name), Mapping):
                return content[name]
    return content


@contextmanager
def refuse_code(source: str | Path) -> Iterator[None]:
    """Read with ``torch.load(..., weights_only=True)`` in it, and say why PyTorch refuses a file.

    PyTorch's own message recommends ``weights_only=False``, which would run the file's code.

    Args:
        source: File or URL that is read in the context.

    Raises:
        UserError: If the file contains anything but tensors, numbers, strings and containers.
    """
    allow_training_state()
    try:
        yield
    except pickle.UnpicklingError as error:
        function = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"names {function[1]}" if function else "is damaged or no file of torch.save"
        raise UnreadableCheckpoint(refusal(source, reason)) from None
    except PermissionError as error:
        if error.errno is not None:
            raise  # the operating system denies access to the file
        # ``narrow_getattr`` of ``training_state``
        raise UnreadableCheckpoint(refusal(source, str(error))) from None
    except RuntimeError as error:
        if "TorchScript" not in str(error):
            raise
        raise UnreadableCheckpoint(refusal(source, "is a TorchScript program")) from None


def refusal(source: str | Path, reason: str) -> str:
    """Return the message for a file that could run code."""
    return (
        f"{source} is refused: it {reason}, and loading it could run code. If the file is your "
        "own, save only the weights: torch.save({'state_dict': model.state_dict()}, path), or "
        "a safetensors file"
    )


def is_file_name(text: object) -> bool:
    """Whether a text names a file in a folder, and none outside of it on any system."""
    if not isinstance(text, str):
        return False
    names = {PurePosixPath(text).name, PureWindowsPath(text).name}
    return names == {text} and text not in ("", "..")


def is_checkpoint(path: Path) -> bool:
    """Whether a file begins as weights do, in one of the formats that are read."""
    with path.open("rb") as file:
        head = file.read(9)
    return head[:2] == ZIP or head[8:] == b"{" or head[:1] == PICKLE or head[:1] in MAPS


def _read_file(path: Path, device: str | torch.device | None) -> object:
    with path.open("rb") as file:
        head = file.read(9)
    if not head:
        raise UnreadableCheckpoint(f"{path} cannot be read: it is empty")
    if head[:2] == ZIP and _is_npz(path):
        with np.load(path, allow_pickle=False) as arrays:
            return {"state_dict": {name: to_tensor(array) for name, array in arrays.items()}}
    if head[8:] == b"{":  # safetensors: 8 bytes of length, then JSON
        return {"state_dict": load_file(path)}
    if head[:2] == ZIP and not is_intact(path):  # PyTorch itself reads wrong values then
        raise UnreadableCheckpoint(f"{path} is damaged: its checksums are not those of its content")
    if head[:2] == ZIP or head[:1] == PICKLE:
        with refuse_code(path):
            return torch.load(path, map_location=device, weights_only=True)
    if head[:1] in MAPS:
        return {"state_dict": read_msgpack(path)}
    raise UnreadableCheckpoint(f"{path} must be an npz, msgpack, safetensors or PyTorch file")


def _read_folder(folder: Path) -> dict:
    meta: dict = {}
    for name in CONFIGS:
        if (folder / name).is_file():
            meta |= read_json(folder / name)
    for name in WEIGHTS:
        if (folder / name).is_file():
            return {"state_dict": _read_weights(folder / name), "meta": meta}
        if (folder / f"{name}.index.json").is_file():
            return {"state_dict": _read_shards(folder / f"{name}.index.json"), "meta": meta}
    raise MissingFile(f"no {' or '.join(WEIGHTS)}, nor an index of one, in {folder}")


def _read_weights(path: Path) -> State:
    return unwrap(_read_file(path, "cpu"), path).state


def _read_shards(index: Path) -> State:
    """Read the tensors that an index names, each from the file beside it that has the tensor."""
    files = read_json(index).get("weight_map")
    if not isinstance(files, dict):
        raise UnreadableCheckpoint(
            f"{index} must have a weight_map, from names of tensors to files"
        )
    if wrong := [name for name in files.values() if not is_file_name(name)]:
        raise UnreadableCheckpoint(
            f"{index} names {wrong[0]!r}, which must be a file in the same folder"
        )
    shards: dict[str, State] = {}
    for name in dict.fromkeys(files.values()):
        if not (index.parent / name).is_file():
            raise MissingFile(f"{index} names {name}, which is not there")
        shards[name] = _read_weights(index.parent / name)
    if lost := [tensor for tensor, name in files.items() if tensor not in shards[name]]:
        raise UnreadableCheckpoint(
            f"{index} names {len(lost)} tensors that their files lack: {lost[:3]}"
        )
    return {tensor: shards[name][tensor] for tensor, name in files.items()}


def _is_npz(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        return all(name.endswith(".npy") for name in archive.namelist())

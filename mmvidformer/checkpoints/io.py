"""Reading and writing checkpoint files."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

import msgpack
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from mmvidformer.checkpoints.fetch import WEIGHTS
from mmvidformer.checkpoints.keymap import State
from mmvidformer.checkpoints.safe import refuse_code

# Keys under which training scripts store the weights.
# Of V-JEPA's two encoders, the evaluations of the official code read the teacher.
WRAPPERS = ("state_dict", "model_state", "model", "module", "target_encoder", "encoder")


@dataclass
class Checkpoint:
    """Weights by name, and ``meta`` of an MMEngine checkpoint or HuggingFace's ``config.json``."""

    state: State
    meta: dict = field(default_factory=dict)


def read_content(path: str | Path, device: str | torch.device | None = "cpu") -> object:
    """Read all that a checkpoint contains, without running code.

    The kind of a file is recognized by its first bytes, not by its name.

    Args:
        path: ``.npz``, Flax msgpack, ``.safetensors`` or PyTorch file; or a HuggingFace folder, of
            which ``model.safetensors`` is read, or else ``pytorch_model.bin``, whole or by its
            index of several files.
        device: Where the tensors of a PyTorch file are put (``map_location`` of ``torch.load``);
            those of others are on the CPU.

    Returns:
        What a PyTorch file contains; for others ``state_dict``, and for folders ``meta``.

    Raises:
        FileNotFoundError: If there is no such file, or no weights in the folder.
        ValueError: If the file is of no such kind, damaged, or could run code, or if there is no
            such device, or too little memory.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    try:
        return _read_folder(path) if path.is_dir() else _read_file(path, device)
    except Exception as error:  # damage makes readers raise many kinds
        if getattr(error, "filename", None) or str(path) in str(error):
            raise
        reason = str(error).partition("\n")[0] or "it ends too early"
        raise ValueError(f"{path} cannot be read: {reason}") from error


def _read_file(path: Path, device: str | torch.device | None) -> object:
    with path.open("rb") as file:
        head = file.read(9)
    if not head:
        raise EOFError
    if head[:2] == b"PK":
        with zipfile.ZipFile(path) as archive:
            if all(name.endswith(".npy") for name in archive.namelist()):
                with np.load(path, allow_pickle=False) as arrays:
                    return {"state_dict": {name: _tensor(x) for name, x in arrays.items()}}
    if head[8:] == b"{":
        return {"state_dict": load_file(path)}
    # Pickles of protocol 2 or later start with 0x80, which msgpack uses for an empty map.
    if head[:2] == b"PK" or head[:1] == b"\x80":
        with refuse_code(path):
            return torch.load(path, map_location=device, weights_only=True)
    if 0x81 <= head[0] <= 0x8F or head[0] in (0xDE, 0xDF):
        return {"state_dict": _load_msgpack(path)}
    raise ValueError(f"{path} must be an npz, msgpack, safetensors or PyTorch file")


def _read_folder(path: Path) -> dict:
    meta: dict = {}
    for name in ("preprocessor_config.json", "video_preprocessor_config.json", "config.json"):
        if (path / name).is_file():
            meta |= json.loads((path / name).read_text(encoding="utf-8"))
    for name in WEIGHTS:
        if (path / name).is_file():
            return {"state_dict": _read_weights(path / name), "meta": meta}
        if (path / f"{name}.index.json").is_file():
            return {"state_dict": _read_shards(path / f"{name}.index.json"), "meta": meta}
    raise FileNotFoundError(f"no {' or '.join(WEIGHTS)}, nor an index of one, in {path}")


def _read_weights(path: Path) -> State:
    return unwrap(_read_file(path, "cpu"), path).state


def _read_shards(index: Path) -> State:
    """Read the tensors that an index names, each from the file beside it that has the tensor."""
    content = json.loads(index.read_text(encoding="utf-8"))
    files = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(files, dict):
        raise ValueError(f"{index} must have a weight_map, from names of tensors to files")
    if wrong := [name for name in files.values() if not is_file_name(name)]:
        raise ValueError(f"{index} names {wrong[0]!r}, which must be a file in the same folder")
    shards: dict[str, State] = {}
    for name in dict.fromkeys(files.values()):
        if not (index.parent / name).is_file():
            raise FileNotFoundError(f"{index} names {name}, which is not there")
        shards[name] = _read_weights(index.parent / name)
    if lost := [tensor for tensor, name in files.items() if tensor not in shards[name]]:
        raise ValueError(f"{index} names {len(lost)} tensors that their files lack: {lost[:3]}")
    return {tensor: shards[name][tensor] for tensor, name in files.items()}


def is_file_name(text: object) -> bool:
    """Whether a text names a file in a folder, and none outside of it on any system."""
    if not isinstance(text, str):
        return False
    names = {PurePosixPath(text).name, PureWindowsPath(text).name}
    return names == {text} and text not in ("", "..")


def unwrap(content: object, path: str | Path) -> Checkpoint:
    """Find the state dict in what ``read_content`` returned for a file.

    Raises:
        ValueError: If there is none.
    """
    meta = content.get("meta") if isinstance(content, Mapping) else None
    meta = dict(meta) if isinstance(meta, Mapping) else {}
    if isinstance(content, Mapping) and "cfg" in content:  # of the official TimeSformer
        meta["cfg"] = content["cfg"]
    if isinstance(content, Mapping) and isinstance(content.get("classifiers"), list):
        content = content["classifiers"][0]  # of V-JEPA's attentive probes
    for name in WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(name), Mapping):
            content = content[name]
    if not isinstance(content, Mapping) or not content:
        raise ValueError(f"{path} must contain a state dict, got {type(content).__name__}")
    if wrong := [name for name, value in content.items() if not isinstance(value, Tensor)]:
        raise ValueError(f"{path} must contain a state dict, but {wrong[:5]} are no tensors")
    return Checkpoint(dict(content), meta)


def _load_msgpack(path: Path) -> State:
    def array(code: int, data: bytes) -> Tensor:  # of flax, which numbers arrays and scalars
        shape, dtype, buffer = msgpack.unpackb(data)
        found = np.frombuffer(buffer, "V2" if dtype == "bfloat16" else dtype)
        return _tensor(found.reshape(shape).copy())  # the buffer is read-only

    return dict(_leaves(msgpack.unpackb(path.read_bytes(), ext_hook=array)))


def _leaves(tree: Mapping, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}/")
        elif isinstance(value, Tensor):
            yield prefix + name, value


def _tensor(array: np.ndarray) -> Tensor:
    if array.dtype.str.endswith("V2"):  # how NumPy stores bfloat16
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def save_checkpoint(path: str | Path, state: Mapping[str, Tensor], meta: Mapping) -> None:
    """Write a checkpoint for MMEngine, with weights and ``meta``; to .safetensors weights only."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    if Path(path).suffix == ".safetensors":
        return save_file({name: value.contiguous() for name, value in state.items()}, path)
    torch.save({"state_dict": dict(state), "meta": dict(meta)}, path)


def save_huggingface(
    path: str | Path, state: Mapping[str, Tensor], config: Mapping, processor: Mapping
) -> None:
    """Write a HuggingFace folder."""
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    for name, content in (("config", config), ("preprocessor_config", processor)):
        if content:
            (path / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")
    save_file(dict(state), path / "model.safetensors", metadata={"format": "pt"})

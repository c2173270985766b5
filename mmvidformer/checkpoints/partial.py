"""Checkpoints that hold only what was trained, and the weights that they were trained from.

Such a file names its base, a file in its folder or a published address, and the hash of each tensor
that it takes from there. Anybody can write one: nothing else that it names is opened.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor

from mmvidformer.checkpoints.download import fetch
from mmvidformer.checkpoints.formats import convert_checkpoint
from mmvidformer.checkpoints.keymap import State, strip_prefixes
from mmvidformer.checkpoints.published import row_of
from mmvidformer.checkpoints.reading import Checkpoint, is_file_name, read_content, unwrap
from mmvidformer.checkpoints.writing import save_tensors
from mmvidformer.errors import MissingFile, UserError
from mmvidformer.storage.atomic import write_atomically

Device = str | torch.device | None
BASE = "base"  # the key of a checkpoint under which it says where its other weights are


class Base(NamedTuple):
    """Where weights come from, a file name or a published address, and their hashes by name."""

    source: str
    sha256: Mapping[str, str]


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read the weights of a checkpoint; see ``read_complete`` and ``unwrap``."""
    return unwrap(read_complete(path), path)


def read_complete(path: str | Path, device: Device = "cpu") -> object:
    """Read a checkpoint as ``read_content`` does, with the weights that it takes from its base.

    Raises:
        FileNotFoundError: As ``read_content``, and if the base is not in the same folder.
        OSError: If a published base cannot be fetched.
        UserError: As ``read_content``, and if the base is neither a file name nor a published
            address, has a base itself, or holds other weights.
    """
    content: Any = read_content(path, device)
    if not is_partial(content):
        return content
    base = _check_base(content.pop(BASE), path)
    state = _read_base(base, Path(path))
    actual = hashes_of(state, base.sha256.keys() & state.keys())
    if wrong := [name for name, text in base.sha256.items() if actual.get(name) != text]:
        shown = ", ".join(wrong[:3])
        raise UserError(
            f"{path} was trained from other weights than {base.source} holds: "
            f"{len(wrong)} of {len(base.sha256)} tensors differ ({shown})"
        )
    frozen = {name: state[name].to(device) for name in base.sha256}
    return {**content, "state_dict": {**frozen, **content["state_dict"]}}


def base_file(path: str | Path) -> Path | None:
    """Return the file beside a checkpoint from which it takes weights; None if there is none."""
    content: Any = read_content(path, "meta")
    if not is_partial(content):
        return None
    source = _check_base(content[BASE], path).source
    return Path(path).parent / source if is_file_name(source) else None


def is_partial(content: object) -> bool:
    """Whether a checkpoint has only some of its weights, and says where the others are.

    In a bare state dict, the key is the name of a tensor.
    """
    if not isinstance(content, dict) or BASE not in content:
        return False
    return isinstance(content.get("state_dict"), Mapping)


def keep_trained(
    content: dict, frozen: Iterable[str], folder: str | Path, published: Base | None = None
) -> None:
    """Drop weights that were not trained from the content of a checkpoint, in place.

    The content gets a base, which says where they are: at a published address, or in the file
    ``base_<hash>.safetensors`` in the folder of the checkpoint, which is written once. Weights that
    differ from the published ones, such as resized positions, stay in the content.

    Args:
        content: Content with a ``state_dict``.
        frozen: Names of the weights that were not trained.
        folder: Folder of the checkpoint.
        published: Published weights that the model started from, if it did.
    """
    state = content["state_dict"]
    hashes = hashes_of(state, frozen)
    if published is not None:
        known = published.sha256
        hashes = {name: text for name, text in hashes.items() if known.get(name) == text}
    if not hashes:
        return
    dropped = {name: state.pop(name).contiguous() for name in hashes}
    if published is not None:
        source = published.source
    else:
        lines = [f"{name} {text}\n" for name, text in sorted(hashes.items())]
        source = f"base_{sha256(''.join(lines).encode()).hexdigest()[:12]}.safetensors"
        path = Path(folder, source)
        if not path.exists():
            with write_atomically(path) as part:
                save_tensors(dropped, part)
    content[BASE] = {"source": source, "sha256": hashes}


def hashes_of(state: Mapping[str, Tensor], names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of type, shape and values of tensors, of which floating ones count as float32."""
    return {name: _hash_of(state[name]) for name in names}


def _hash_of(tensor: Tensor) -> str:
    tensor = tensor.detach().cpu()
    tensor = tensor.float() if tensor.is_floating_point() else tensor
    header = f"{tensor.dtype} {tuple(tensor.shape)}"
    return sha256(header.encode() + tensor.contiguous().numpy().tobytes()).hexdigest()


def _check_base(content: object, path: str | Path) -> Base:
    """Check the form of a base, and that it may be opened."""
    parts = content if isinstance(content, Mapping) else {}
    source, hashes = parts.get("source"), parts.get("sha256")
    if not isinstance(source, str) or not _maps_texts(hashes):
        raise UserError(f"the base in {path} must have a source, and sha256 of tensors by name")
    if not is_file_name(source) and not _is_published(source):
        raise UserError(
            f"{path} takes weights from {source!r}, which is not opened: it is neither the name of "
            "a file in the same folder nor a published address"
        )
    return Base(source, hashes)


def _maps_texts(value: object) -> TypeGuard[Mapping[str, str]]:
    if not isinstance(value, Mapping):
        return False
    return all(isinstance(text, str) for text in (*value, *value.values()))


def _is_published(source: str) -> bool:
    try:
        return row_of(source) is not None
    except KeyError:
        return False


def _read_base(base: Base, path: Path) -> State:
    """Read the weights of a base, converted if they have other names."""
    is_file = is_file_name(base.source)
    file = path.parent / base.source if is_file else fetch(base.source)
    if is_file and not file.is_file():
        folder = path.parent.absolute()
        raise MissingFile(f"{path} holds only what was trained; put {base.source} into {folder}")
    content = read_content(file)
    if is_partial(content):
        raise UserError(f"{path} takes weights from {file}, which takes them from another file")
    checkpoint = unwrap(content, file)
    state = strip_prefixes(checkpoint.state, ["module."])
    if base.sha256.keys() <= state.keys():
        return state
    return convert_checkpoint(checkpoint, base.source)[1].state


def load_from_source(source: str, map_location: Device = None) -> Any:
    """Read an address, or a file or folder of any kind; see ``fetch`` and ``read_complete``."""
    return read_complete(fetch(source), map_location)

"""Files of safetensors."""

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor


def save_tensors(state: Mapping[str, Tensor], path: Path, **metadata: str) -> None:
    """Write tensors, with the rights of any other file; safetensors lets only their owner read.

    Args:
        state: Tensors by name.
        path: File to write.
        **metadata: Texts by name, of the file's header.
    """
    path.touch()
    mode = path.stat().st_mode
    save_file({name: value.contiguous() for name, value in state.items()}, path, metadata or None)
    path.chmod(mode)

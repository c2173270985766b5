"""What all readers of checkpoint files need: refusing code, and recognizing incomplete files."""

import pickle
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

BASE = "base"  # the key of a checkpoint under which it says where its other weights are


@contextmanager
def refuse_code(name: str | Path) -> Iterator[None]:
    """Explain why ``torch.load(..., weights_only=True)`` refuses a file.

    PyTorch's own message recommends ``weights_only=False``, which would run the file's code.

    Args:
        name: File or URL that is read in the context.

    Raises:
        ValueError: If the file contains anything but tensors, numbers, strings and containers.
    """
    try:
        yield
    except (pickle.UnpicklingError, PermissionError, RuntimeError) as error:
        if getattr(error, "errno", None) is not None:
            raise  # the operating system denies access to the file
        if isinstance(error, RuntimeError) and "TorchScript" not in str(error):
            raise
        found = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"names {found[1]}" if found else "was not written by torch.save"
        raise ValueError(
            f"{name} is refused: it {reason}, and loading it could run code. If the file is your "
            "own, save only the weights: torch.save({'state_dict': model.state_dict()}, path), or "
            "a safetensors file"
        ) from None


def is_partial(content: object) -> bool:
    """Whether a checkpoint has only some of its weights, and says where the others are.

    ``convert.trained`` reads them. In a bare state dict, the key is the name of a tensor.
    """
    return (
        isinstance(content, dict)
        and BASE in content
        and isinstance(content.get("state_dict"), Mapping)
    )

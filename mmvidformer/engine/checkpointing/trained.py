"""Writing checkpoints that hold only what was trained; ``convert.trained`` reads them."""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from safetensors.torch import save_file
from torch import nn

from mmvidformer.checkpoints.atomic import write_atomically
from mmvidformer.checkpoints.published import row_of
from mmvidformer.checkpoints.safe import BASE
from mmvidformer.checkpoints.trained import Base, hashes_of
from mmvidformer.engine.loading import read_checkpoint


def published_base(weights: str | None, model: nn.Module) -> Base | None:
    """Read the weights that a model starts from, if they are published."""
    if weights is None or row_of(weights) is None:
        return None
    state = read_checkpoint(weights, model)["state_dict"]
    return Base(weights, hashes_of(state, state))


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
        _write_once(dropped, Path(folder, source))
    content[BASE] = {"source": source, "sha256": hashes}


def _write_once(state: dict, path: Path) -> None:
    if not path.exists():
        with write_atomically(path) as part:
            save_file(state, part)

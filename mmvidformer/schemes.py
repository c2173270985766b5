"""Schemes of addresses that MMEngine resolves once this package is imported.

Wherever MMEngine reads a checkpoint, it may be ``hf://ORG/NAME[@REVISION]``, ``published://NAME``,
a URL, a file or a folder, in any of ``convert.FORMATS``; weights of other projects are converted as
they are read. Wherever MMEngine reads a text file, ``labels://NAME`` is a list of class names.
"""

import torch
from mmengine.fileio import BaseStorageBackend, register_backend
from mmengine.logging import print_log
from mmengine.runner import CheckpointLoader

from mmvidformer.labels import read_labels

Device = str | torch.device | None


class Labels(BaseStorageBackend):
    """Class names as the lines of a text file."""

    def get(self, filepath: str) -> bytes:
        """Return the names, encoded."""
        return self.get_text(filepath).encode()

    def get_text(self, filepath: str, encoding: str = "utf-8") -> str:
        """Return the names of ``labels://NAME``, one per line."""
        return "\n".join(read_labels(str(filepath)))


def load_from_source(source: str, map_location: Device = None) -> object:
    """Read a checkpoint for MMEngine, and convert it if it is another project's.

    Returns unchanged what has this package's names or unknown ones, and MMAction2's TimeSformer,
    since MMAction2's own model needs its names; our ``TimeSformer`` translates them.

    Raises:
        OSError: If it does not exist or cannot be fetched.
        ValueError: If it is damaged or could run code, or lacks weights of its format.
    """
    from mmvidformer.convert import formats, io
    from mmvidformer.convert.fetch import fetch
    from mmvidformer.convert.info import read_info
    from mmvidformer.convert.published import row_of

    content = io.read_content(fetch(source), map_location)
    try:
        checkpoint = io.unwrap(content, source)
        kind = formats.recognize(checkpoint.state)
    except ValueError:
        return content
    if kind == "mmvidformer" or "backbone.patch_embed.projection.weight" in checkpoint.state:
        row = row_of(source)
        if row is None:
            return content
        meta = checkpoint.meta | read_info(checkpoint.meta, row)
        return {"state_dict": checkpoint.state, "meta": meta}
    kind, result = formats.convert_checkpoint(checkpoint, source)
    if isinstance(map_location, str | torch.device):
        result.state = {name: value.to(map_location) for name, value in result.state.items()}
    if str(map_location) != "meta":
        title, count = formats.FORMATS[kind].title, len(result.state)
        print_log(f"{source}: converted {count} tensors of {title}", logger="current")
    return {"state_dict": result.state, "meta": formats.meta_of(kind, result)}


def register() -> None:
    """Register the schemes."""
    register_backend("labels", Labels, force=True, prefixes="labels")
    prefixes = ["", "http://", "https://", "hf://", "published://"]
    CheckpointLoader.register_scheme(prefixes, loader=load_from_source, force=True)

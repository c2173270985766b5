"""Addresses of checkpoints and class names that the plugin adds to MMEngine's.

Wherever MMEngine reads a checkpoint, it may be ``hf://ORG/NAME[@REVISION]``, ``published://NAME``
or in object storage (``s3://BUCKET/FILE``); weights of other projects are converted as they are
read. Wherever MMEngine reads a text file, ``labels://NAME`` is a list of class names.
"""

from mmengine.fileio import BaseStorageBackend, register_backend
from mmengine.runner import CheckpointLoader

from mmvidformer.checkpoints.download import OBJECT_STORAGE
from mmvidformer.checkpoints.labels import read_labels
from mmvidformer.checkpoints.on_load import convert_content
from mmvidformer.checkpoints.partial import Device, load_from_source


class Labels(BaseStorageBackend):
    """Class names as the lines of a text file."""

    def get(self, filepath: str) -> bytes:
        """Return the names, encoded."""
        return self.get_text(filepath).encode()

    def get_text(self, filepath: str, encoding: str = "utf-8") -> str:
        """Return the names of ``labels://NAME``, one per line."""
        return "\n".join(read_labels(str(filepath)))


def load_from_address(source: str, map_location: Device = None) -> object:
    """Read a checkpoint, and convert it if it is another project's; see ``convert_content``."""
    return convert_content(load_from_source(source, map_location), source)


def read_all_kinds() -> None:
    """Let MMEngine read files, folders and URLs of all kinds in this process, as the tools do."""
    prefixes = ["", "http://", "https://"]
    CheckpointLoader.register_scheme(prefixes, loader=load_from_source, force=True)


def register() -> None:
    """Register the schemes."""
    register_backend("labels", Labels, force=True, prefixes="labels")
    prefixes = ["hf://", "published://", *OBJECT_STORAGE]  # MMEngine has a client of its own for S3
    CheckpointLoader.register_scheme(prefixes, loader=load_from_address, force=True)

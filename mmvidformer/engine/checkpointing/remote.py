"""Checkpoints in object storage."""

import os
from pathlib import Path

from mmengine.fileio import BaseStorageBackend, FileClient
from mmengine.hooks import CheckpointHook
from mmengine.runner import Runner

from mmvidformer.engine.checkpointing.resume import LAST
from mmvidformer.storage.files import (
    exists,
    is_remote,
    join,
    read_file,
    remove,
    split_path,
    write_file,
)

# Argument ``file_client_args`` of MMEngine's hooks whose ``out_dir`` is in object storage. With the
# newer ``backend_args`` they make MMEngine's own client of the address as well
# (``FileClient.infer_client``); that of ``s3://`` needs a package that is not public.
CLIENT = {"backend": "mmvidformer"}


@FileClient.register_backend(CLIENT["backend"], force=True)
class RemoteBackend(BaseStorageBackend):
    """MMEngine's interface to the storage that ``storage.files`` reads and writes."""

    def get(self, filepath: str) -> bytes:
        """Read a file."""
        return read_file(filepath)

    def get_text(self, filepath: str, encoding: str = "utf-8") -> str:
        """Read a text."""
        return read_file(filepath).decode(encoding)

    def put(self, obj: bytes, filepath: str) -> None:
        """Write a file, which appears as a whole."""
        write_file(filepath, obj)

    def put_text(self, obj: str, filepath: str) -> None:
        """Write a text."""
        write_file(filepath, obj.encode())

    def join_path(self, filepath: str, *filepaths: str) -> str:
        """Join the parts of an address."""
        return join(filepath, *filepaths)

    def isfile(self, filepath: str) -> bool:
        """Whether a file exists."""
        return exists(filepath)

    def isdir(self, filepath: str) -> bool:
        """Return False: checkpoints are files."""
        return False

    def remove(self, filepath: str) -> None:
        """Delete a file."""
        remove(filepath)


def checkpoint_folder(out_dir: str | None, runner: Runner) -> str:
    """Return where a run saves checkpoints: the work dir, or its namesake in another folder."""
    if out_dir in (None, runner.work_dir):
        return runner.work_dir
    return join(out_dir, Path(os.path.normpath(runner.work_dir)).name)


def find_last(runner: Runner) -> str | None:
    """Return the last checkpoint of a run that writes to object storage, if there is any."""
    for hook in runner.hooks:
        if isinstance(hook, CheckpointHook) and is_remote(hook.out_dir or ""):
            folder = checkpoint_folder(hook.out_dir, runner)
            note = join(folder, LAST)
            if not exists(note):
                return None
            # The folder may be a copy of the one that the note names.
            _, name = split_path(read_file(note).decode().strip())
            return join(folder, name)
    return None

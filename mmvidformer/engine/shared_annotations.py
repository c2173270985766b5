"""Annotations that the processes of a node parse once and share in memory."""

import io
import os
import pickle
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import numpy as np
from filelock import FileLock
from mmengine.dataset import BaseDataset
from mmengine.dist import all_gather_object, get_world_size

# Attributes of MMEngine's datasets that hold the samples.
ARRAYS = ("data_bytes", "data_address")


@contextmanager
def shared_annotations() -> Iterator[None]:
    """Let the processes of a node share the samples of the datasets that they build.

    The first process that builds a dataset parses its annotations and writes the samples to a
    temporary folder. The others wait, and all map the samples into memory. The folder goes with the
    context, so each run parses annotations anew. All processes of a run enter together.
    """
    if get_world_size() == 1:
        yield
        return
    is_first = os.environ.get("LOCAL_RANK", "0") == "0"
    own = tempfile.mkdtemp(prefix="mmvidformer_") if is_first else ""
    node = socket.gethostname()
    places = all_gather_object((node, own))
    folders = [path for name, path in places if name == node and os.path.isdir(path)]
    parse = BaseDataset.full_init
    if folders:  # not if each process has a temporary folder of its own
        BaseDataset.full_init = lambda self: _share(self, parse, Path(folders[0]))
    try:
        yield
    finally:
        BaseDataset.full_init = parse
        if own:
            shutil.rmtree(own, ignore_errors=True)


def _share(dataset: BaseDataset, parse: Callable[[BaseDataset], None], folder: Path) -> None:
    settings = _dump(dataset)
    shareable = not dataset._fully_initialized and dataset.serialize_data and settings
    if not shareable or not folder.is_dir():  # gone once the process that made it has ended
        parse(dataset)
        return
    key = sha256(settings).hexdigest()
    state, *arrays = (folder / f"{key}_{name}" for name in ("state", *ARRAYS))
    with FileLock(folder / f"{key}.lock"):
        if not state.exists():
            parse(dataset)
            content = _dump(dataset)
            with suppress(OSError):  # of a full disk; then each process parses for itself
                for name, path in zip(ARRAYS, arrays, strict=True):
                    with path.open("wb") as file:
                        np.save(file, getattr(dataset, name))
                part = state.with_suffix(".part")
                part.write_bytes(content)
                if content:
                    part.rename(state)
    if state.exists():
        vars(dataset).update(pickle.loads(state.read_bytes())[1])
        for name, path in zip(ARRAYS, arrays, strict=True):
            setattr(dataset, name, np.asarray(np.load(path, mmap_mode="r")))


def _dump(dataset: BaseDataset) -> bytes:
    """Pickle a dataset without transforms and samples, or return nothing if that is impossible."""
    skipped = ("pipeline", *ARRAYS)
    attributes = {name: value for name, value in vars(dataset).items() if name not in skipped}
    file = io.BytesIO()
    pickler = pickle.Pickler(file)
    pickler.fast = True  # equal values have equal bytes, whether or not they share objects
    try:
        pickler.dump((type(dataset), attributes))
    except Exception:  # objects of users raise several kinds
        return b""
    return file.getvalue()

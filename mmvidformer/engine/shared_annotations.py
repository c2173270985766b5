"""Annotations that the processes of a node parse once and share in memory."""

import io
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import numpy as np
from filelock import FileLock
from mmengine.dataset import BaseDataset
from mmengine.dist import broadcast_object_list, get_world_size

# Attributes of MMEngine's datasets that hold the samples.
ARRAYS = ("data_bytes", "data_address")


@contextmanager
def shared_annotations() -> Iterator[None]:
    """Let the processes of a node share the samples of the datasets that they build.

    The first process that builds a dataset parses its annotations and writes the samples to a
    temporary folder. The others wait, and all map the samples into memory. The folder is removed
    when the context ends, so each run parses annotations anew. All processes of a run enter
    together.
    """
    if get_world_size() == 1:
        yield
        return
    names = [f"mmvidformer_{uuid4().hex}"]
    broadcast_object_list(names)  # each node has a folder of this name
    folder, parse = Path(tempfile.gettempdir(), names[0]), BaseDataset.full_init
    folder.mkdir(mode=0o700, exist_ok=True)
    BaseDataset.full_init = lambda self: _share(self, parse, folder)
    try:
        yield
    finally:
        BaseDataset.full_init = parse
        shutil.rmtree(folder, ignore_errors=True)


def _share(dataset: BaseDataset, parse: Callable[[BaseDataset], None], folder: Path) -> None:
    settings = _dump(dataset)
    shareable = not dataset._fully_initialized and dataset.serialize_data and settings
    if not shareable or not folder.is_dir():  # gone once another process has ended
        parse(dataset)
        return
    key = sha256(settings).hexdigest()
    state, *arrays = (folder / f"{key}_{name}" for name in ("state", *ARRAYS))
    with FileLock(folder / f"{key}.lock"):
        if not state.exists():
            parse(dataset)
            content = _dump(dataset)
            with suppress(OSError):  # of a full disk, or without the folder
                for name, path in zip(ARRAYS, arrays, strict=True):
                    with path.open("wb") as file:
                        np.save(file, getattr(dataset, name))
                part = state.with_suffix(".part")
                part.write_bytes(content)
                if content:
                    part.rename(state)
    if state.exists():
        # A process of this run wrote it, in a folder that only its user can read.
        vars(dataset).update(pickle.loads(state.read_bytes())[1])  # nosec B301
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

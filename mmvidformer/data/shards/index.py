"""The index of shards: where the bytes of each sample are, its row and its frames."""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mmvidformer.data.shards.rows import read_row
from mmvidformer.errors import MissingFile, UserError
from mmvidformer.storage.cache import local_copy, read_cached
from mmvidformer.storage.files import join, read_file
from mmvidformer.storage.range_file import MOST_BYTES, RangeFile
from mmvidformer.video.index import Index
from mmvidformer.video.packed_index import unpack_index
from mmvidformer.video.video import Video

FORMAT = "mmvidformer shards 1"
INDEX, SAMPLES, ROWS, FRAMES = "index.json", "samples.npy", "rows.jsonl", "frames.bin"
NO_LABEL = -1
# A sample: number of its shard; place and size of the file in it, 0 if it was missing; its class,
# -1 if it has none or several; place and size of its row, and of what is known of the frames.
SAMPLE = np.dtype(
    [
        *(("shard", "<u4"), ("offset", "<u8"), ("size", "<u8"), ("label", "<i4")),
        *(("row", "<u8"), ("row_size", "<u4"), ("frames", "<u8"), ("frames_size", "<u4")),
    ]
)


class WrongShards(UserError):
    """Shards that are damaged, or do not fit what they are read for."""


class StoredVideo(NamedTuple):
    """A video in a shard, which ``VideoInit`` opens as ``results['stored_video']``.

    Attributes:
        index: The index of the shards.
        number: Number of the sample.
        filename: Path of the video, as its list says.
    """

    index: "ShardIndex"
    number: int
    filename: str

    def __deepcopy__(self, memo: dict) -> "StoredVideo":
        """Return itself: MMEngine copies the samples of a list."""
        return self

    @property
    def size(self) -> int:
        """Bytes of the file; 0 if it was missing when the shards were written."""
        return int(self.index.samples["size"][self.number])

    def read(self) -> bytes:
        """Read the file; raises as ``ShardIndex.read``."""
        return self.index.read(self.number)

    def open(self, backend: str = "pyav", **options: int | None) -> Video:
        """Open the video, of which nothing needs to be demuxed; raises as ``Video.open`` too.

        Of a video of more than ``MOST_BYTES`` bytes, only what is needed is read.
        """
        frames = self.index.frames(self.number, self.filename)
        if self.size > MOST_BYTES:
            file = RangeFile.open(*self.index.place(self.number))
            return Video.open(file, backend, index=frames, **options)
        return Video.open(self.read(), backend, name=self.filename, index=frames, **options)


class ShardIndex(Sequence):
    """The samples of shards, in the order of their list; reading one reads nothing else.

    Workers and threads may share it. It is pickled by its address alone, whatever its length.

    Args:
        folder: Folder or address of the shards.

    Raises:
        FileNotFoundError: If there is no index.
        StorageError: If remote storage does not answer.
        WrongShards: If the index has another format, or is damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = str(folder)
        self.facts = read_facts(folder)
        self.version, self._count = self.facts["id"], self.facts["samples"]
        # Each process of a node maps the same files.
        self._paths = {name: local_copy(join(folder, name)) for name in (SAMPLES, ROWS, FRAMES)}

    def __getstate__(self) -> dict[str, Any]:
        mapped = ("samples", "_rows", "_frames")
        return {key: value for key, value in vars(self).items() if key not in mapped}

    @property
    def task(self) -> str:
        """Name of the task of the rows, as in ``tasks.table.find_task``."""
        return self.facts["task"]

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes or values; empty if the list came without."""
        return tuple(self.facts["classes"])

    @property
    def metainfo(self) -> dict[str, Any]:
        """Further facts of the dataset, for metrics, if shards of a config have any."""
        return read_row(self.facts.get("metainfo", "{}"))

    @cached_property
    def samples(self) -> np.ndarray:
        """The samples (n,), of type ``SAMPLE``, mapped into memory."""
        path = self._copy_of(SAMPLES)
        try:
            samples = np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            raise WrongShards(f"{path}: {error}") from error
        if samples.dtype != SAMPLE or samples.shape != (self._count,):
            wanted = f"{self._count} samples, as {INDEX} says"
            raise WrongShards(f"{path} must have {wanted}, got {samples.shape}")
        return samples

    def _copy_of(self, name: str) -> Path:
        """Return a local file of the index, whose first copy the cache may have deleted."""
        path = self._paths[name]
        return path if path.exists() else local_copy(join(self.folder, name))

    @cached_property
    def _rows(self) -> np.ndarray:
        return _map(self._copy_of(ROWS))

    @cached_property
    def _frames(self) -> np.ndarray:
        return _map(self._copy_of(FRAMES))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int | slice) -> Any:
        """Return what the list says of a sample, or a list of that of several.

        It has ``filename``, the keys of its task, and a ``stored_video``, the ``StoredVideo``.
        """
        number = range(self._count)[place]
        if isinstance(number, range):
            return [self[place] for place in number]
        sample = self.samples[number]
        start, size = int(sample["row"]), int(sample["row_size"])
        row = read_row(self._rows[start : start + size].tobytes())
        if sample["label"] != NO_LABEL:
            row.setdefault("label", int(sample["label"]))
        return {**row, "stored_video": StoredVideo(self, number, row["filename"])}

    def frames(self, number: int, name: str) -> Index | None:
        """Return what is known of the frames of a sample's video; None if it could not be read.

        Raises:
            BadVideo: Of the name, if that is damaged.
        """
        sample = self.samples[number]
        start, size = int(sample["frames"]), int(sample["frames_size"])
        packed = self._frames[start : start + size].tobytes()
        return unpack_index(packed, name) if size else None

    def read(self, number: int) -> bytes:
        """Read the file of a sample's video, and nothing else.

        Raises:
            FileNotFoundError: If the file was missing when the shards were written.
            OSError, UserError: If the shard is missing or too short.
            StorageError: If remote storage does not answer.
        """
        return read_cached(*self.place(number), self.version)

    def place(self, number: int) -> tuple[str, int, int]:
        """Return the shard of a sample's video, and place and size of the file in it.

        Raises:
            FileNotFoundError: If the file was missing when the shards were written.
        """
        sample = self.samples[number]
        size = int(sample["size"])
        if not size:
            raise MissingFile("it was missing when the shards were written")
        shard = join(self.folder, shard_name(int(sample["shard"])))
        return shard, int(sample["offset"]), size

    @property
    def labels(self) -> np.ndarray | None:
        """The class of each sample (n,); None if one has none or several."""
        labels = self.samples["label"]
        return None if (labels == NO_LABEL).any() else labels


def read_facts(folder: str | Path) -> dict[str, Any]:
    """Read ``index.json``; see ``ShardIndex``."""
    content = read_file(join(folder, INDEX))
    try:
        facts = json.loads(content)
        if facts["format"] != FORMAT:
            raise UserError(f"format {facts['format']!r}, not {FORMAT!r}")
        if missing := {"id", "samples", "shards"} - facts.keys():
            raise KeyError(", ".join(sorted(missing)))
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise WrongShards(f"{join(folder, INDEX)} is no index of shards: {reason}") from error
    return facts


def shard_name(number: int) -> str:
    """Return the name of a shard."""
    return f"{number:05d}.tar"


def _map(path: Path) -> np.ndarray:
    """Map the bytes of a file; one without any cannot be mapped."""
    return np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)

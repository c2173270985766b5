"""What bulk commands read: a folder, a list, shards, storage with videos, or a single video."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mmvidformer.data.lists import read_list
from mmvidformer.data.shards.index import INDEX, ShardIndex, StoredVideo
from mmvidformer.data.tables import read_rows
from mmvidformer.data.video_folders import find_videos, is_video, select_videos
from mmvidformer.storage.cache import local_copy
from mmvidformer.storage.files import (
    exists,
    file_size,
    is_remote,
    join,
    list_files,
    read_file,
    split_path,
)
from mmvidformer.storage.range_file import MOST_BYTES, RangeFile
from mmvidformer.video.video import Video

LISTS = (".txt", ".csv")


class RemoteVideo(NamedTuple):
    """A video in remote storage, which ``VideoInit`` opens as ``results['stored_video']``.

    Attributes:
        filename: Its address.
    """

    filename: str

    def open(self, backend: str = "pyav", **options: int | None) -> Video:
        """Open the video; raises as ``Video.open``, and ``StorageError``."""
        if file_size(self.filename) > MOST_BYTES:
            return Video.open(RangeFile.open(self.filename), backend, **options)
        return Video.open(read_file(self.filename), backend, name=self.filename, **options)


class VideoContent(NamedTuple):
    """The content of a video file, which ``VideoInit`` opens as ``results['stored_video']``.

    Attributes:
        filename: What messages call it.
        content: The bytes.
    """

    filename: str
    content: bytes

    def open(self, backend: str = "pyav", **options: int | None) -> Video:
        """Open the video; raises as ``Video.open``."""
        return Video.open(self.content, backend, name=self.filename, **options)


# What ``VideoPipeline.open`` takes.
VideoSource = str | StoredVideo | RemoteVideo | VideoContent


@dataclass(frozen=True)
class VideoInputs:
    """Videos by name.

    Attributes:
        root: Folder or address that names are relative to.
        names: Names of the videos, each once, in the order of their folder or list. A video outside
            of the root has its whole path.
        index: The shards that have them, if there are any.
        samples: Of each name the number of its first sample in the shards.
    """

    root: str
    names: Sequence[str]
    index: ShardIndex | None = None
    samples: Mapping[str, int] | None = None

    @property
    def are_files(self) -> bool:
        """Whether they are local files, which any transform can open."""
        return self.index is None and not is_remote(self.root)

    @property
    def address(self) -> str:
        """The root, as it is called from any folder."""
        return self.root if is_remote(self.root) else os.path.abspath(self.root)

    def locate(self, name: str) -> VideoSource:
        """Return what to open for a name."""
        if self.index is not None and self.samples is not None:
            return StoredVideo(self.index, self.samples[name], name)
        if is_remote(self.root):
            return RemoteVideo(name if is_remote(name) else join(self.root, name))
        return os.path.join(self.root, name)


def list_inputs(source: str) -> VideoInputs:
    """List the videos of a source, which is a path or an address.

    - A folder of shards (``mmvidformer data shard``): the videos of their list.
    - Another folder, or the beginning of addresses: the videos in it, by suffix.
    - A list of MMAction2 (.txt), with paths relative to its folder, or a csv file with a column
      ``video``. Lines that name a video again are left out.
    - A single video.

    Raises:
        FileNotFoundError: If the source does not exist, or a folder has no videos.
        StorageError: If remote storage does not answer.
        ValueError: If a list names no video, or a line has another form.
    """
    if exists(join(source, INDEX)):
        return _shard_inputs(ShardIndex(source))
    if Path(source).is_dir():
        return VideoInputs(
            source, [os.path.relpath(video, source) for video in find_videos(source)]
        )
    is_list = source.lower().endswith(LISTS)
    if is_remote(source) and not (is_list or is_video(source)):
        return VideoInputs(source, select_videos(list_files(source), source))
    if not exists(source):
        raise FileNotFoundError(f"video, folder or list {source} does not exist")
    folder, file = split_path(source)
    names = _listed_names(source) if is_list else [file]
    if not names:
        raise ValueError(f"{source} names no video")
    return VideoInputs(folder, list(dict.fromkeys(names)))


def _listed_names(source: str) -> list[str]:
    path = local_copy(source)
    if source.lower().endswith(".txt"):
        return [line.path for line in read_list(path)]
    names = []
    for row, where in read_rows(path, "video"):
        if not row["video"]:
            raise ValueError(f"{where}: there is no video")
        names.append(row["video"])
    return names


def _shard_inputs(index: ShardIndex) -> VideoInputs:
    samples: dict[str, int] = {}
    for number in range(len(index)):
        samples.setdefault(index[number]["filename"], number)
    return VideoInputs(index.folder, list(samples), index, samples)

"""What commands read: videos, folders and lists of them, shards, storage, cameras, addresses."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from mmvidformer.checkpoints.reading import is_checkpoint
from mmvidformer.data.folders import find_names, is_video, place_below, select_names
from mmvidformer.data.lists import read_video_list
from mmvidformer.data.shards.index import INDEX, ShardIndex, StoredVideo
from mmvidformer.errors import MissingFile, UserError
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
from mmvidformer.video.connection import is_stream, public_name
from mmvidformer.video.containers import open_container
from mmvidformer.video.errors import BadVideo, with_suffix
from mmvidformer.video.video import Video
from mmvidformer.video.writer import picture_name

CHECKPOINT_SCHEMES = ("hf", "published")
WEB_SCHEMES = ("http", "https")  # of checkpoints, videos and streams
PLAYLISTS = (".m3u8", ".mpd")
LISTS = (".txt", ".csv")


class Source(NamedTuple):
    """A video, a camera or an address.

    Attributes:
        name: Path of the file, number of the camera, or address.
        folder: The folder or list's folder in which it was found; None of cameras and addresses.
        is_found: Whether it was found in a folder, with all other videos there.
    """

    name: str
    folder: Path | None = None
    is_found: bool = False

    @property
    def is_stream(self) -> bool:
        """Whether it is a camera or an address."""
        return is_stream(self.name)

    @property
    def title(self) -> str:
        """The name without a password."""
        return public_name(self.name)

    def target(self, path: Path, suffix: str) -> Path:
        """Where to write: ``path``, or a file in it if it is a folder, or has no suffix."""
        if path.suffix and not path.is_dir():
            return path
        if self.is_stream:
            letters = (letter if letter.isalnum() else "_" for letter in self.title)
            return path / f"{''.join(letters)}{suffix}"
        return path / picture_name(place_below(self.name, self.folder), suffix)


def is_source(word: str) -> bool:
    """Whether a word of a command line is a source, and no checkpoint.

    An address on the web is a source if its path ends as that of a video or a playlist does; a
    file, if its name ends as that of a video or a list does, or there is a video in it.
    """
    if "://" in word:
        address = urlsplit(word)
        if address.scheme in WEB_SCHEMES:
            return is_video(address.path) or address.path.lower().endswith(PLAYLISTS)
        return address.scheme not in CHECKPOINT_SCHEMES
    path = Path(word)
    if path.is_dir():
        return not (path / "config.json").is_file()  # of a HuggingFace checkpoint
    has_name = is_stream(word) or is_video(word) or word.lower().endswith(LISTS)
    return has_name or (path.is_file() and _has_video(path))


def _has_video(path: Path) -> bool:
    if is_checkpoint(path):
        return False
    try:
        open_container(path).close()
    except BadVideo:
        return False
    return True


def list_sources(words: Sequence[str]) -> list[Source]:
    """List the videos of folders and lists, and other sources as they are, each once.

    Raises:
        FileNotFoundError: If a source does not exist, or a folder has no videos.
        UserError: If a list has a wrong line, or videos are in shards.
    """
    sources = []
    for word in words:
        path = Path(word)
        if is_stream(word) and not path.is_dir():
            sources.append(Source(word))
        elif path.exists():
            folder = path if path.is_dir() else path.parent
            videos = list_video_files(word)
            sources += [Source(video, folder, path.is_dir()) for video in videos]
        else:
            raise MissingFile(f"{word} does not exist, and is no camera or address")
    by_path: dict[str, Source] = {}
    for source in sources:
        by_path.setdefault(os.path.abspath(source.name), source)
    return list(by_path.values())


def list_video_files(source: str | Path) -> list[str]:
    """List the paths of the files of a folder, a list or a single video; see ``list_inputs``.

    Raises:
        UserError: If the videos are in shards or remote storage; and as ``list_inputs``.
    """
    inputs = list_inputs(str(source))
    if not inputs.are_files:
        raise UserError(f"{source}: local files are read here, not shards or remote storage")
    paths = [os.path.join(inputs.root, name) for name in inputs.names]
    is_list = str(source).lower().endswith(LISTS) and not Path(source).is_dir()
    return [with_suffix(path) for path in paths] if is_list else paths


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
        UserError: If a list names no video, or a line has another form.
    """
    if exists(join(source, INDEX)):
        return _shard_inputs(ShardIndex(source))
    if Path(source).is_dir():
        return VideoInputs(source, find_names(source))
    is_list = source.lower().endswith(LISTS)
    if is_remote(source) and not (is_list or is_video(source)):
        return VideoInputs(source, select_names(list_files(source), source))
    if not exists(source):
        raise MissingFile(f"video, folder or list {source} does not exist")
    folder, file = split_path(source)
    names = [file]
    if is_list:
        names = [line.path for line in read_video_list(local_copy(source)).lines]
    if not names:
        raise UserError(f"{source} names no video")
    return VideoInputs(folder, list(dict.fromkeys(names)))


def _shard_inputs(index: ShardIndex) -> VideoInputs:
    samples: dict[str, int] = {}
    for number in range(len(index)):
        samples.setdefault(index[number]["filename"], number)
    return VideoInputs(index.folder, list(samples), index, samples)

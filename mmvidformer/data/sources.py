"""What a command answers for: videos, folders of them, cameras and addresses."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from mmvidformer.checkpoints.reading import is_checkpoint
from mmvidformer.data.video_folders import find_videos, is_video
from mmvidformer.video.capture import is_stream, public_name
from mmvidformer.video.containers import open_container
from mmvidformer.video.writer import picture_name

CHECKPOINT_SCHEMES = ("hf", "published")
WEB_SCHEMES = ("http", "https")  # of checkpoints, videos and streams
PLAYLISTS = (".m3u8", ".mpd")


class Source(NamedTuple):
    """A video, a camera or an address.

    Attributes:
        name: Path of the file, number of the camera, or address.
        folder: The folder in which it was found, or its own; None of cameras and addresses.
    """

    name: str
    folder: Path | None = None

    @property
    def is_stream(self) -> bool:
        """Whether it is a camera or an address."""
        return is_stream(self.name)

    @property
    def title(self) -> str:
        """The name without a password."""
        return public_name(self.name)

    def target(self, path: Path | None, suffix: str) -> Path | None:
        """Where to write: ``path``, or a file in it if it is a folder, or has no suffix."""
        if path is None or path.suffix and not path.is_dir():
            return path
        if self.is_stream:
            letters = (letter if letter.isalnum() else "_" for letter in self.title)
            return path / f"{''.join(letters)}{suffix}"
        video = Path(self.name)
        return path / picture_name(video.relative_to(self.folder), suffix)


def is_source(word: str) -> bool:
    """Whether a word of a command line is a source, and no checkpoint.

    An address on the web is a source if its path ends as that of a video or a playlist does; a
    file, if its name does so, or there is a video in it.
    """
    if "://" in word:
        address = urlsplit(word)
        if address.scheme in WEB_SCHEMES:
            return is_video(address.path) or address.path.lower().endswith(PLAYLISTS)
        return address.scheme not in CHECKPOINT_SCHEMES
    path = Path(word)
    if path.is_dir():
        return not (path / "config.json").is_file()  # of a HuggingFace checkpoint
    return is_stream(word) or is_video(word) or path.is_file() and _has_video(path)


def _has_video(path: Path) -> bool:
    if is_checkpoint(path):
        return False
    try:
        open_container(path).close()
    except (OSError, ValueError):
        return False
    return True


def list_sources(words: Sequence[str]) -> list[Source]:
    """List the videos of folders, and other sources as they are, each once.

    Raises:
        FileNotFoundError: If a source does not exist, or a folder has no videos.
    """
    sources = []
    for word in words:
        path = Path(word)
        if path.is_dir():
            sources += [Source(str(video), path) for video in find_videos(path)]
        elif is_stream(word):
            sources.append(Source(word))
        elif path.is_file():
            sources.append(Source(word, path.parent))
        else:
            raise FileNotFoundError(f"{word} does not exist, and is no camera or address")
    by_path: dict[str, Source] = {}
    for source in sources:
        by_path.setdefault(os.path.abspath(source.name), source)
    return list(by_path.values())

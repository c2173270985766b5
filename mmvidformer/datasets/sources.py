"""What a command answers for: videos, folders of them, cameras and addresses."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from mmvidformer.datasets.own_videos import find_videos, is_video
from mmvidformer.video.capture import is_stream, public_name
from mmvidformer.video.writer import target_of

CHECKPOINT_SCHEMES = ("hf", "published")
WEB_SCHEMES = ("http", "https")  # of checkpoints, videos and streams
PLAYLISTS = (".m3u8", ".mpd")


class Source(NamedTuple):
    """A video, a camera or an address.

    Attributes:
        name: Path of the file, number of the camera, or address.
        folder: The folder in which it was found; its own, if there are other sources; None if it is
            the only one.
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
        """Where to write: ``path``, or a file in it if there are several sources."""
        if path is None:
            return None
        if self.folder is None:
            return target_of(path, Path(self.name), Path(self.name), suffix)
        if not self.is_stream:
            return target_of(path, Path(self.name), self.folder, suffix)
        path.mkdir(parents=True, exist_ok=True)
        letters = (letter if letter.isalnum() else "_" for letter in self.title)
        return path / f"{''.join(letters)}{suffix}"


def is_source(word: str) -> bool:
    """Whether a word of a command line is a source, and no checkpoint.

    An address on the web is a source if its path ends as that of a video or a playlist does.
    """
    if "://" in word:
        address = urlsplit(word)
        if address.scheme in WEB_SCHEMES:
            return is_video(address.path) or address.path.lower().endswith(PLAYLISTS)
        return address.scheme not in CHECKPOINT_SCHEMES
    path = Path(word)
    if path.is_dir():
        return not (path / "config.json").is_file()  # of a HuggingFace checkpoint
    return is_stream(word) or is_video(word)


def list_sources(words: Sequence[str]) -> list[Source]:
    """List the videos of folders, and other sources as they are.

    Raises:
        FileNotFoundError: If a source does not exist, or a folder has no videos.
    """
    sources = []
    for word in words:
        path = Path(word)
        if path.is_dir():
            sources += [Source(str(video), path) for video in find_videos(path)]
        elif path.is_file() or is_stream(word):
            sources.append(Source(word, path.parent if len(words) > 1 else None))
        else:
            raise FileNotFoundError(f"{word} does not exist, and is no camera or address")
    return sources

import os
import re
from collections.abc import Mapping

from mmvidformer.storage.errors import UserError

# Keys under which datasets keep the path of a sample's video or folder of frames.
PATH_KEYS = ("filename", "frame_dir", "img_path", "audio_path")
# Place in the source code with which messages of decord and TorchCodec begin.
_SOURCE_PLACE = re.compile(r"\[[\d:]+\] \S+:\d+: |\w+, \S+\.cpp:\d+, ")


class TooManyBadVideos(UserError, RuntimeError):
    """More bad videos than are allowed."""


class BadVideo(UserError):
    """A video that cannot be read: its path, and the reason."""

    def __init__(self, path: str, reason: str = "") -> None:  # dataloaders give their text alone
        super().__init__(path, reason)
        self.path, self.reason = str(path), reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.reason else self.path


def path_of(info: Mapping) -> str:
    """Return the path that a sample is read from, or its index if the dataset gives no path."""
    paths = (info[key] for key in PATH_KEYS if info.get(key))
    return str(next(paths, f"sample {info.get('sample_idx', '?')}"))


def with_suffix(path: str) -> str:
    """Add ``.mp4`` to a path without suffix, as MMAction2 does."""
    return path if os.path.splitext(path)[1] or os.path.exists(path) else f"{path}.mp4"


def first_line(error: Exception) -> str:
    """Return the first line of an error message that is not empty."""
    # PyAV's messages repeat the path; that of the system may be a frame's.
    message = "" if isinstance(error, OSError) else getattr(error, "strerror", "")
    lines = _SOURCE_PLACE.sub("", message or str(error)).splitlines()
    return next((line.strip() for line in lines if line.strip()), "no message")

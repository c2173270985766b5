"""What is wrong with a video: one error, which a line of text explains."""

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import av

from mmvidformer.errors import UserError

NO_FRAME = "there is no frame in it"
# Keys under which datasets keep the path of a sample's video or folder of frames.
PATH_KEYS = ("filename", "frame_dir", "img_path", "audio_path")
# Errors of storage, such as that of a network, which may pass.
PASSING = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
# Place in the source code with which messages of decord and TorchCodec begin.
_SOURCE_PLACE = re.compile(r"\[[\d:]+\] \S+:\d+: |\w+, \S+\.cpp:\d+, ")
_REASONS: dict[type[Exception], str] = {
    av.InvalidDataError: "it is damaged, cut off, or no video",
    av.EOFError: "it ends too early",
    av.PatchWelcomeError: "FFmpeg does not know a feature that it uses",
    av.DecoderNotFoundError: "FFmpeg has no decoder for it",
    MemoryError: "its header asks for more memory than there is",
    UnicodeError: "its header has text that is not Unicode",
}


class TooManyBadVideos(UserError, RuntimeError):
    """More bad videos than are allowed."""


class CaptureLost(ConnectionError, UserError):
    """A camera or an address that cannot be opened, or that ended before its time."""


class BadVideo(UserError):
    """A video that cannot be read: its path, and the reason.

    It is the error of all that reads videos. Others are raised only for missing files and rights
    (``OSError``), and for storage that does not answer (``StorageError``).
    """

    def __init__(self, path: str, reason: str = "") -> None:  # dataloaders give their text alone
        super().__init__(path, reason)
        self.path, self.reason = str(path), reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.reason else self.path


@contextmanager
def blame(path: str) -> Iterator[None]:
    """Raise ``BadVideo`` for what a library raises because of a file's content.

    Errors of mounted storage (``PASSING``) stay, and so does all that no file can cause.
    """
    try:
        yield
    except (av.FFmpegError, MemoryError, UnicodeError) as error:
        if getattr(error, "errno", None) in PASSING:
            raise
        raise BadVideo(path, _reason(error)) from error


def _reason(error: Exception) -> str:
    for error_class, reason in _REASONS.items():
        if isinstance(error, error_class):
            return reason
    # Such as "Operation not permitted", by which a decoder means that it does not support a file.
    return f'FFmpeg cannot read it ("{getattr(error, "strerror", None) or error}")'


def name_of(source: object) -> str:
    """Return the name of a file, which is a path or a file object, for messages."""
    return source if isinstance(source, str) else str(getattr(source, "name", "the file"))


def path_of(info: Mapping) -> str:
    """Return the path that a sample is read from, or its index if the dataset gives no path."""
    paths = (info[key] for key in PATH_KEYS if info.get(key))
    return str(next(paths, f"sample {info.get('sample_idx', '?')}"))


def with_suffix(path: str) -> str:
    """Add ``.mp4`` to a path without suffix, as MMAction2 does."""
    return path if os.path.splitext(path)[1] or os.path.exists(path) else f"{path}.mp4"


def first_line(error: Exception) -> str:
    """Return the reason of a bad video, or the first line of a message that is not empty."""
    if isinstance(error, BadVideo):
        return error.reason
    # PyAV's messages repeat the path; that of the system may be a frame's.
    message = "" if isinstance(error, OSError) else getattr(error, "strerror", "")
    lines = _SOURCE_PLACE.sub("", message or str(error)).splitlines()
    return next((line.strip() for line in lines if line.strip()), "no message")

"""What is wrong with a video: one error, which a line of text explains."""

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import av

from mmvidformer.errors import MissingFile, UserError

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

    It is the error of all that reads videos, whoever wrote it (``blame``), but for remote storage
    that does not answer (``StorageError``). ``may_pass`` says that mounted storage is to blame.
    """

    # Dataloaders give the text alone.
    def __init__(self, path: str, reason: str = "", may_pass: bool = False) -> None:
        super().__init__(path, reason)
        self.path, self.reason, self.may_pass = str(path), reason, may_pass

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.reason else self.path

    def without_cause(self) -> "BadVideo":
        """Return it without its traceback and its cause, which keep the frames of the video."""
        return BadVideo(self.path, self.reason)


@contextmanager
def blame(path: str, reader: str = "FFmpeg") -> Iterator[None]:
    """Raise ``BadVideo`` for what a reader raises: decoders have no common class of errors.

    What no file can cause stays: a user's mistake, a missing package, the full memory of a GPU, and
    a key that no transform has set.
    """
    try:
        yield
    except MissingFile as error:
        raise BadVideo(path, str(error).removeprefix(f"{path} ")) from error
    except (UserError, ImportError, KeyError):
        raise
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":  # of PyTorch, which need not be here
            raise
        may_pass = getattr(error, "errno", None) in PASSING
        raise BadVideo(path, _reason(error, path, reader), may_pass) from error


def _reason(error: Exception, path: str, reader: str) -> str:
    for error_class, reason in _REASONS.items():
        if isinstance(error, error_class):
            return reason
    if isinstance(error, av.FFmpegError):
        # Such as "Operation not permitted", by which a decoder means that it does not support it.
        return f"{reader} cannot read it ({error.strerror})"
    if isinstance(error, OSError) and error.strerror:
        is_other = error.filename not in (None, path)
        return f"{error.filename}: {error.strerror}" if is_other else error.strerror
    return f"{reader} cannot read it ({type(error).__name__}: {first_line(error)[:160]})"


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
    """Return the first line of a message that is not empty, without a place in source code."""
    lines = _SOURCE_PLACE.sub("", str(error)).splitlines()
    return next((line.strip() for line in lines if line.strip()), "no message")

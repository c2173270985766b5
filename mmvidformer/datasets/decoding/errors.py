"""Bad videos: the exceptions, and what the file system says about a file."""

import os
import re
from collections.abc import Mapping

import cv2

# Keys under which datasets keep the path of a sample's video, folder of frames or LMDB.
PATH_KEYS = ("filename", "frame_dir", "lmdb", "img_path", "audio_path")
# Place in the source code with which messages of decord and TorchCodec begin.
_SOURCE_PLACE = re.compile(r"\[[\d:]+\] \S+:\d+: |\w+, \S+\.cpp:\d+, ")


class TooManyBadVideos(RuntimeError):
    """More bad videos than are allowed."""

    for_user = True  # see engine.errors.run_tool


class BadVideo(Exception):
    """A video that cannot be read: its path, and the reason."""

    for_user = True

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


def fault_of_file(path: str) -> str | None:
    """Return what is wrong with a local file without decoding it: missing, a folder, or empty."""
    path = with_suffix(path)
    try:
        size = os.stat(path).st_size
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        return "there is no such file" if missing else error.strerror
    if os.path.isdir(path):
        return "is a folder, not a video"
    return None if size else "is empty (0 bytes)"


def fault_of_frames(info: Mapping) -> str | None:
    """Return what is wrong with a folder of frames: the first one that is missing or no image."""
    folder, total = info["frame_dir"], info.get("total_frames")
    if not os.path.isdir(folder):
        return "there is no such folder"
    if total is None or "filename_tmpl" not in info or info.get("modality", "RGB") != "RGB":
        return None
    first = info.get("start_index", 1) + info.get("offset", 0)
    names = [info["filename_tmpl"].format(first + i) for i in range(total)]
    present = set(os.listdir(folder))
    missing = [name for name in names if name not in present]
    if missing:
        return f"{len(missing)} of {total} frames are missing, the first is {missing[0]}"
    damaged = (name for name in names if cv2.imread(os.path.join(folder, name)) is None)
    return next((f"frame {name} cannot be decoded" for name in damaged), None)


def first_line(error: Exception) -> str:
    """Return the first line of an error message that is not empty."""
    lines = _SOURCE_PLACE.sub("", str(error)).splitlines()
    return next((line.strip() for line in lines if line.strip()), "no message")

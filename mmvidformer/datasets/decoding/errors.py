"""Bad videos: the exceptions, what is known about a file that could not be read, and a record."""

import json
import os
import re
import tempfile
from collections.abc import Mapping
from multiprocessing.util import Finalize
from pathlib import Path
from traceback import walk_tb

import cv2
from mmcv.transforms import BaseTransform

# Keys under which datasets keep the path of a sample's video, folder of frames or LMDB.
PATH_KEYS = ("filename", "frame_dir", "lmdb", "img_path", "audio_path")
# Place in the source code with which messages of decord and TorchCodec begin.
_SOURCE_PLACE = re.compile(r"\[[\d:]+\] \S+:\d+: |\w+, \S+\.cpp:\d+, ")


class TooManyBadVideos(RuntimeError):
    """More bad videos than are allowed."""

    for_user = True  # see engine.launch.run_tool


class BadVideo(Exception):
    """A video that cannot be read: its path, and the reason."""

    for_user = True

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = str(path), reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def path_of(info: Mapping) -> str:
    """Return the path that a sample is read from, or its index if the dataset gives no path."""
    paths = (info[key] for key in PATH_KEYS if info.get(key))
    return str(next(paths, f"sample {info.get('sample_idx', '?')}"))


def bad_video(info: Mapping, error: Exception) -> BadVideo:
    """Explain why a sample could not be read, whose pipeline raised an error."""
    if isinstance(error, BadVideo):
        return error
    path = path_of(info)
    reason = fault_of_frames(info) if "frame_dir" in info else fault_of_file(path)
    if reason is None:
        owners = (frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__))
        names = [type(owner).__name__ for owner in owners if isinstance(owner, BaseTransform)]
        reason = ": ".join((*names[-1:], type(error).__name__, first_line(error)[:200]))
    return BadVideo(path, reason)


def with_suffix(path: str) -> str:
    """Add ``.mp4`` to a path without suffix, as MMAction2 does."""
    return path if os.path.splitext(path)[1] or os.path.exists(path) else f"{path}.mp4"


def fault_of_file(path: str) -> str | None:
    """Return what is wrong with a file without decoding it: missing, a folder, or empty."""
    path = with_suffix(path)
    if not os.path.lexists(path):
        return "there is no such file"
    if os.path.isdir(path):
        return "is a folder, not a video"
    if not os.path.exists(path):
        return "is a link to a file that does not exist"
    return None if os.path.getsize(path) else "is empty (0 bytes)"


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


class BadSamples:
    """Record of bad samples in a temporary file, to which forked and spawned workers append.

    Lines are short and written at once, so writers need no lock. The process that made the record
    removes the file.
    """

    def __init__(self) -> None:
        handle, self.file = tempfile.mkstemp(prefix="bad_samples_", suffix=".jsonl")
        os.close(handle)
        self._known: dict[int, tuple[str, str]] = {}
        self._offset = 0
        Finalize(self, Path(self.file).unlink, (True,), exitpriority=0)  # not in forks

    def known(self) -> dict[int, tuple[str, str]]:
        """Return path and reason of all bad samples by index."""
        if os.path.getsize(self.file) > self._offset:
            with open(self.file, "rb") as file:
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # still being written
                    self._offset += len(line)
                    index, *fault = json.loads(line)
                    self._known.setdefault(index, tuple(fault))
        return self._known

    def add(self, index: int, path: str, reason: str) -> None:
        """Add a sample, unless the record has it."""
        if index not in self.known():
            with open(self.file, "ab", buffering=0) as file:
                file.write(f"{json.dumps((index, path, reason))}\n".encode())

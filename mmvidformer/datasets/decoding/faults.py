"""What is wrong with the file of a sample that could not be read."""

import os
import re
from collections.abc import Mapping
from traceback import walk_tb

import cv2
import numpy as np
from mmcv.transforms import BaseTransform

from mmvidformer.datasets.decoding.errors import BadVideo

# Where datasets keep the path of a sample's video, folder of frames or LMDB.
PATH_KEYS = ("filename", "frame_dir", "lmdb", "img_path", "audio_path")
# Time and place in decord's source, which its messages begin with.
_PLACES = re.compile(r"\[[\d:]+\] \S+:\d+: ")


def path_of(info: Mapping) -> str:
    """Path of the file that a sample is read from, or its number if its dataset states none."""
    for key in PATH_KEYS:
        if info.get(key):
            return str(info[key])
    return f"sample {info.get('sample_idx', '?')}"


def fault(info: Mapping, error: Exception) -> BadVideo:
    """Say in words why a sample could not be read.

    Args:
        info: Fields that the pipeline starts from.
        error: What the pipeline raised.
    """
    path = path_of(info)
    if isinstance(error, BadVideo):
        return error
    if "frame_dir" in info:
        reason = fault_of_frames(path, info)
    else:
        reason = fault_of_file(path)
    return BadVideo(path, reason or words(error))


def fault_of_file(path: str) -> str | None:
    """What can be told without decoding: the file is missing, a folder, or empty."""
    if not os.path.splitext(path)[1] and not os.path.exists(path):
        path += ".mp4"  # as MMAction2's openers do
    if not os.path.lexists(path):
        return "there is no such file"
    if os.path.isdir(path):
        return "is a folder, not a video"
    if not os.path.exists(path):
        return "is a link to a file that does not exist"
    return None if os.path.getsize(path) else "is empty (0 bytes)"


def fault_of_frames(folder: str, info: Mapping) -> str | None:
    """First frame of a folder that is missing or no image.

    Args:
        folder: The folder.
        info: ``filename_tmpl``, ``total_frames``, ``start_index``, ``offset`` and ``modality`` as
            MMAction2's ``RawFrameDecode`` takes them.
    """
    if not os.path.isdir(folder):
        return "there is no such folder"
    template, total = info.get("filename_tmpl"), info.get("total_frames")
    if template is None or total is None or info.get("modality", "RGB") != "RGB":
        return None
    if total < 1:
        return f"has {total} frames by the annotation"
    first = info.get("start_index", 1) + info.get("offset", 0)
    present = set(os.listdir(folder))
    names = [template.format(first + i) for i in range(total)]
    missing = [name for name in names if name not in present]
    if missing:
        return f"{len(missing)} of {total} frames are missing, the first is {missing[0]}"
    for name in names:
        if not is_image(os.path.join(folder, name)):
            return f"frame {name} can't be decoded"
    return None


def is_image(path: str) -> bool:
    """Whether a file can be decoded as an image."""
    content = np.fromfile(path, np.uint8)
    return content.size > 0 and cv2.imdecode(content, cv2.IMREAD_COLOR) is not None


def words(error: Exception) -> str:
    """The transform that failed, the kind of error, and the first telling line of its message."""
    owners = (frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__))
    names = [type(owner).__name__ for owner in owners if isinstance(owner, BaseTransform)]
    where = f"{names[-1]}: " if names else ""
    return f"{where}{type(error).__name__}: {first_line(error)[:200]}"


def first_line(error: Exception) -> str:
    """The first line of a message that tells something, without places in a decoder's source."""
    lines = _PLACES.sub("", str(error)).splitlines()
    return next((line.strip() for line in lines if line.strip()), "no message")

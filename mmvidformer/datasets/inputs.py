"""What bulk commands read: the videos of a folder, of a list, or a single file."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmvidformer.datasets.csv_rows import read_rows
from mmvidformer.datasets.lists import read_list
from mmvidformer.datasets.own_videos import find_videos


@dataclass(frozen=True)
class VideoInputs:
    """Videos by name.

    Attributes:
        root: Folder that names are relative to.
        names: Names of the videos, each once, in the order of their folder or list. A video outside
            of the root has its whole path.
    """

    root: str
    names: Sequence[str]

    def locate(self, name: str) -> str:
        """Return the path of a video."""
        return os.path.join(self.root, name)


def list_inputs(source: str | Path) -> VideoInputs:
    """List the videos of a folder, a list or a single file.

    A list is MMAction2's (.txt), with paths relative to its folder, or a csv file with a column
    ``video``. Lines that name a video again are left out.

    Raises:
        FileNotFoundError: If the source does not exist, or a folder has no videos.
        ValueError: If a list names no video, or a line has another form.
    """
    path = Path(source)
    if path.is_dir():
        names = [os.path.relpath(video, path) for video in find_videos(path)]
        return VideoInputs(str(path), names)
    if not path.is_file():
        raise FileNotFoundError(f"video, folder or list {path} does not exist")
    if path.suffix == ".txt":
        names = [name for _, name in read_list(path)]
    elif path.suffix == ".csv":
        names = [row["video"] for row, _ in read_rows(path, "video")]
    else:
        names = [path.name]
    if not names:
        raise ValueError(f"{path} names no video")
    return VideoInputs(str(path.parent), list(dict.fromkeys(names)))

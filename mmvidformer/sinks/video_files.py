"""Features of many videos, a file for each video, for training and other programs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmvidformer.data.folders import place_below
from mmvidformer.storage.files import join, list_files, write_to
from mmvidformer.storage.parts import PART, Answer, PartTable
from mmvidformer.storage.targets import check_distinct


class VideoFiles(PartTable):
    """A folder, or an address, of features with a file for each video, named as the video is.

    A vector or tokens are in .npy. Rows of clips are in .npz (``LoadFeatures``), or resized to
    ``rows`` in .csv for MMAction2's ``ActivityNetDataset``. What is done is what has a file.

    Raises:
        UserError: If two videos have the same file.
    """

    def __init__(
        self,
        folder: str,
        root: Path,
        names: Sequence[str],
        has_clips: bool,
        rows: int | None,
        settings: Mapping[str, Any],
        part: int = PART,
    ) -> None:
        suffix = ".csv" if rows else ".npz" if has_clips else ".npy"
        places = [place_of(root / name, root, suffix) for name in names]
        check_distinct(zip([str(root / name) for name in names], places, strict=True))
        self.places = {name: place.as_posix() for name, place in zip(names, places, strict=True)}
        self.rows, self.has_clips = rows, has_clips
        self._failed: dict[str, str] = {}
        super().__init__(folder, settings, names, part)

    def _read(self) -> bool:
        return len(self.missing()) < len(self.places)

    def missing(self, retry: bool = True) -> list[str]:
        """Return the names of the videos without a file; failed ones have none."""
        done = {*list_files(self.folder)}
        return [name for name, place in self.places.items() if place not in done]

    def failed(self) -> dict[str, str]:
        """Return the reason of each video that could not be read in this run."""
        return dict(self._failed)

    def write_part(self, answers: Sequence[Answer]) -> None:
        """Write the file of each video."""
        for answer in answers:
            if answer.error is not None:
                self._failed[answer.name] = answer.error
                continue
            values = [row["features"].reshape(row["shape"]) for row in answer.rows]
            target = join(self.folder, self.places[answer.name])
            if self.has_clips:
                write_features(target, np.stack(values), self.rows, **answer.rows[0]["facts"])
            else:
                write_features(target, values[0])


def place_of(video: Path, root: Path, suffix: str = ".npy") -> Path:
    """Return where the file of a video's features is in their folder.

    It is ``clip.mp4.npy`` or ``clip.mp4.npz``, or ``clip.csv`` as MMAction2 names csv files. A
    video outside the root keeps its whole path.
    """
    place = place_below(video, root)
    if suffix == ".csv":
        return place.with_suffix(suffix)
    return place.with_name(f"{place.name}{suffix}")


def write_features(
    target: str | Path, values: np.ndarray, rows: int | None = None, **facts: Any
) -> None:
    """Write features as .npy, with ``facts`` as .npz, or as csv for MMAction2's ActivityNetDataset.

    For csv the features (n, D) are resized linearly to a number of rows.
    """
    with write_to(target) as part, part.open("wb") as file:
        if rows is not None:
            old, new = np.arange(len(values)), (np.arange(rows) + 0.5) * len(values) / rows - 0.5
            table = np.stack([np.interp(new, old, column) for column in values.T], axis=1)
            header = ",".join(f"f{i}" for i in range(values.shape[1]))
            np.savetxt(file, table, "%.6g", ",", header=header, comments="")
        elif facts:
            np.savez(file, features=values, **facts)
        else:
            np.save(file, values)

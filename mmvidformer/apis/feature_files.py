"""Files of features."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mmvidformer.atomic import write_atomically
from mmvidformer.datasets.lists import read_list
from mmvidformer.datasets.own_videos import find_videos


def list_videos(source: Path) -> tuple[Path, list[Path]]:
    """Return the folder that names are relative to, and the videos."""
    if source.is_dir():
        return source, find_videos(source)
    if not source.is_file():
        raise FileNotFoundError(f"video, folder or list {source} does not exist")
    if source.suffix != ".txt":
        return source.parent, [source]
    return source.parent, [source.parent / path for _, path in read_list(source)]


def target_of(video: Path, root: Path, out: Path, suffix: str = ".npy") -> Path:
    """Return the file of a video's features; a video outside the root keeps its whole path.

    It is ``clip.mp4.npy`` or ``clip.mp4.npz``, or ``clip.csv`` as MMAction2 names csv files.
    """
    if not video.is_relative_to(root):
        video = video.absolute()
        root = Path(video.anchor)
    place = video.relative_to(root)
    if suffix == ".csv":
        return out / place.with_suffix(suffix)
    return out / place.with_name(f"{place.name}{suffix}")


def check_settings(out: Path, settings: Mapping[str, object]) -> None:
    """Record the settings of a folder of features, or compare them with those of an old folder."""
    record = out / "features.json"
    if not record.is_file():
        out.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(dict(settings), indent=1) + "\n", encoding="utf-8")
        return
    found = json.loads(record.read_text(encoding="utf-8"))
    differ = sorted(key for key in settings if found.get(key) != settings[key])
    if differ:
        raise FileExistsError(
            f"{out} has features with another {', '.join(differ)} ({record}); use another folder"
        )


def write_features(target: Path, values: np.ndarray, rows: int | None = None, **facts: Any) -> None:
    """Write features as .npy, with ``facts`` as .npz, or as csv for MMAction2's ActivityNetDataset.

    For csv the features (n, D) are resized linearly to a number of rows.
    """
    with write_atomically(target) as part, part.open("wb") as file:
        if rows is None and facts:
            np.savez(file, features=values, **facts)
            return
        if rows is None:
            np.save(file, values)
            return
        old, new = np.arange(len(values)), (np.arange(rows) + 0.5) * len(values) / rows - 0.5
        table = np.stack([np.interp(new, old, column) for column in values.T], axis=1)
        header = ",".join(f"f{i}" for i in range(values.shape[1]))
        np.savetxt(file, table, "%.6g", ",", header=header, comments="")

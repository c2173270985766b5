"""Files of the generated data sets: a record of the arguments, clips, and csv files."""

import csv
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np

from mmvidformer.datasets.motion.video import QUALITY, write_independent_frames

SPLITS = ("train", "val", "test")
ANNOTATIONS = (
    *(f"{split}.{suffix}" for split in SPLITS for suffix in ("txt", "csv")),
    "classes.txt", "actions.csv", "video_info.csv",
)  # fmt: skip
EPIC_COLUMNS = (
    "narration_id", "participant_id", "video_id", "narration_timestamp", "start_timestamp",
    "stop_timestamp", "start_frame", "stop_frame", "narration", "verb", "verb_class", "noun",
    "noun_class", "all_nouns", "all_noun_classes",
)  # fmt: skip

Progress = Callable[[Iterable, int], Iterable]


class Video(Protocol):
    """A video to write: its path below the root of the data set."""

    path: str


def silent(items: Iterable, total: int) -> Iterable:
    """Show no progress."""
    return items


def write_dataset(
    root: str | Path,
    content: Mapping[str, object],
    videos: Sequence[Video],
    draw: Callable[[Video], np.ndarray],
    annotate: Callable[[Path], None],
    fps: float,
    workers: int = 1,
    force: bool = False,
    progress: Progress = silent,
    folders: Sequence[str] = SPLITS,
) -> bool:
    """Write a data set, unless it is there.

    Args:
        root: Folder to write into.
        content: All that decides what is written; recorded in ``motion.json``.
        videos: The videos, in ``folders``.
        draw: Gives the RGB frames (T, H, W, 3) of a video.
        annotate: Writes the annotations into the folder.
        fps: Frames a second of the files.
        workers: Processes that draw and encode.
        force: Replace a data set made with other arguments; its videos and ``ANNOTATIONS`` are
            deleted.
        progress: Wraps the iteration over finished videos; gets their number too.
        folders: Folders of the videos below ``root``.

    Returns:
        False if the folder held the very same data set already, and nothing was done.

    Raises:
        FileExistsError: If the folder holds one made with other arguments, and not ``force``.
    """
    root = Path(root)
    record = root / "motion.json"
    wanted = {**content, "encoding": f"Motion JPEG, quality {QUALITY}"}
    wanted = json.loads(json.dumps(wanted))  # as it is read back: lists for tuples
    if record.is_file():
        found = json.loads(record.read_text())
        if found == {**wanted, "complete": True}:
            return False
        if {**found, "complete": None} != {**wanted, "complete": None}:
            if not force:
                raise FileExistsError(
                    f"{root} holds a motion data set made with other arguments ({record}); "
                    "choose another folder, or force to write over it"
                )
            # What the new one does not have would stay otherwise.
            for name in found.get("class_folders", SPLITS):
                shutil.rmtree(root / name, ignore_errors=True)
            for name in ANNOTATIONS:
                (root / name).unlink(missing_ok=True)
    for name in folders:
        (root / name).mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({**wanted, "complete": False}, indent=1))

    write = partial(_write_video, root, draw, fps)
    if workers > 1:
        with ProcessPoolExecutor(workers) as pool:
            for _ in progress(pool.map(write, videos, chunksize=8), len(videos)):
                pass
    else:
        for _ in progress(map(write, videos), len(videos)):
            pass
    annotate(root)
    record.write_text(json.dumps({**wanted, "complete": True}, indent=1))
    return True


def _write_video(root: Path, draw: Callable[[Video], np.ndarray], fps: float, video: Video) -> None:
    cv2.setNumThreads(1)
    write_independent_frames(root / video.path, draw(video), fps)


def write_list(path: Path, labels: Iterable[tuple[str, int]]) -> None:
    """Write a list for MMAction2's ``VideoDataset``: path and class a line."""
    path.write_text("".join(f"{name} {label}\n" for name, label in labels))


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a csv file with a header."""
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def epic_row(
    video_id: str,
    participant_id: str,
    number: int,
    first: int,
    stop: int,
    fps: float,
    verb: tuple[int, str],
    noun: tuple[int, str],
) -> dict[str, str | int]:
    """Give a row of EPIC-Kitchens-100's csv files.

    Args:
        video_id: Video.
        participant_id: Who made it.
        number: Number of the segment in the video.
        first: Its first frame, from 0.
        stop: The frame after its last.
        fps: Frames a second.
        verb: Class and name.
        noun: Class and name.
    """
    return {
        "narration_id": f"{video_id}_{number}",
        "participant_id": participant_id,
        "video_id": video_id,
        "narration_timestamp": f"{_clock(first / fps)}0",
        "start_timestamp": _clock(first / fps),
        "stop_timestamp": _clock(stop / fps),
        "start_frame": first + 1,
        "stop_frame": stop,
        "narration": f"move {noun[1]} {verb[1]}",
        "verb": verb[1],
        "verb_class": verb[0],
        "noun": noun[1],
        "noun_class": noun[0],
        "all_nouns": f"['{noun[1]}']",
        "all_noun_classes": f"[{noun[0]}]",
    }


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(seconds, 60)
    return f"{int(minutes) // 60:02}:{int(minutes) % 60:02}:{seconds:05.2f}"

"""Preparation of a dataset: its videos re-encoded once, and its annotation files rewritten."""

import json
import os
import random
from functools import partial
from pathlib import Path

from mmvidformer.atomic import write_atomically
from mmvidformer.datasets.decoding.check_files import find_faults
from mmvidformer.datasets.decoding.encode import encode_video
from mmvidformer.datasets.decoding.errors import with_suffix
from mmvidformer.datasets.lists import read_list, write_report

SETTINGS = "prepared.json"


def prepare_list(
    ann_file: str | Path,
    out: str | Path,
    root: str | Path = "",
    workers: int = 4,
    time_limit: float = 3600.0,
    **settings: int,
) -> int:
    """Re-encode the videos of an annotation file, and write this file for the results.

    Videos that exist in ``out`` are skipped, so a run may be repeated, and several machines may
    fill one folder.

    Args:
        ann_file: List of videos.
        out: Folder of the results. Videos have the paths there that they have below ``root``, and
            those of other formats end with ``.mp4`` in addition. The annotation file keeps its
            name, without the lines of bad videos, which ``<name>_bad.csv`` lists.
        root: Folder of the videos.
        workers: Number of processes, with one thread each.
        time_limit: Seconds for one video.
        **settings: Arguments of ``encode_video``.

    Returns:
        The number of bad videos.

    Raises:
        ValueError: If a video is not below ``root``, or ``out`` has other settings.
        FileExistsError: If ``out`` has other files.
    """
    out, targets, lines = Path(out), {}, []
    for entry in read_list(ann_file):
        source = os.path.join(root, entry.path)
        name = Path(os.path.relpath(source, root or ".")).as_posix()
        if name.startswith("../"):
            raise ValueError(f"{ann_file}: {source} is not below the folder {root or '.'}")
        name += "" if name.lower().endswith(".mp4") else ".mp4"
        source = with_suffix(source)
        targets[source] = str(out / name)
        lines.append((source, entry.text.replace(entry.path, name, 1)))
    _claim(out, {"root": os.path.abspath(root), **settings})
    todo = [one for one in targets.items() if not os.path.exists(one[1])]
    random.Random().shuffle(todo)  # machines that fill one folder begin with different videos
    print(f"{len(targets)} videos, {len(targets) - len(todo)} of them already prepared")
    faults = find_faults(partial(encode_video, **settings), todo, workers, time_limit)
    bad, _ = write_report(ann_file, out, lines, faults, ending="")
    if faults:
        print(f"{len(faults)} videos are bad: see {bad}")
    return len(faults)


def _claim(out: Path, settings: dict[str, object]) -> None:
    """Record the settings in a new folder, or compare them with its record."""
    file = out / SETTINGS
    if not file.exists():
        if out.exists() and any(path.suffix != ".part" for path in out.iterdir()):
            raise FileExistsError(f"{out} has files that were not prepared; choose a new folder")
        with write_atomically(file) as part:
            part.write_text(json.dumps(settings, indent=1), encoding="utf-8")
    before = json.loads(file.read_text("utf-8"))
    if before != settings:
        raise ValueError(f"{out} was prepared with {before}, got {settings}; choose another")

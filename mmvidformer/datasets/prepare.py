"""Preparation of a dataset: its videos re-encoded once, and its annotation files rewritten."""

import json
import os
import random
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from mmvidformer.atomic import write_atomically
from mmvidformer.datasets.decoding.check_files import find_faults
from mmvidformer.datasets.decoding.encode import Encoding, encode_video
from mmvidformer.datasets.decoding.errors import with_suffix
from mmvidformer.datasets.lists import read_list, write_report

SETTINGS = "prepared.json"


def prepare_dataset(
    ann_files: Sequence[str | Path],
    out: str | Path,
    encoding: Encoding,
    root: str | Path = "",
    workers: int = 4,
    time_limit: float = 3600.0,
) -> int:
    """Re-encode the videos of annotation files, and write these files for the results.

    Videos that exist in ``out`` are skipped, so a run may be repeated, and several machines may
    fill one folder.

    Args:
        ann_files: Lists of videos.
        out: Folder of the results. Videos have the paths there that they have below ``root``, and
            those of other formats end with ``.mp4`` in addition. Annotation files keep their names,
            without the lines of bad videos, which ``<name>_bad.csv`` lists.
        encoding: How videos are re-encoded.
        root: Folder of the videos.
        workers: Number of processes, with one thread each.
        time_limit: Seconds for one video.

    Returns:
        The number of bad videos.

    Raises:
        ValueError: If a list cannot be prepared, or ``out`` has other settings.
        FileExistsError: If ``out`` has other files.
    """
    out = Path(out)
    lists = {Path(file): _plan(Path(file), out, root) for file in ann_files}
    names = [file.stem for file in lists]
    if len({*names}) < len(names):
        raise ValueError(f"annotation files must have different names, got {names}")
    targets = {source: target for lines in lists.values() for source, target, _ in lines}
    _claim(out, {"root": os.path.abspath(root), **asdict(encoding)})
    todo = [one for one in targets.items() if not os.path.exists(one[1])]
    random.Random().shuffle(todo)  # machines that fill one folder begin with different videos
    print(f"{len(targets)} videos, {len(targets) - len(todo)} of them already prepared")
    faults = find_faults(partial(encode_video, encoding=encoding), todo, workers, time_limit)
    for file, lines in lists.items():
        write_report(file, out, [(source, text) for source, _, text in lines], faults, ending="")
    if faults:
        print(f"{len(faults)} videos are bad: see {out / '*_bad.csv'}")
    return len(faults)


def _plan(file: Path, out: Path, root: str | Path) -> list[tuple[str, str, str]]:
    """Return source and target of each video of a list, and its line as it will be."""
    lines = []
    for entry in read_list(file):
        source = os.path.join(root, entry.path)
        name = Path(os.path.relpath(source, root or ".")).as_posix()
        if name.startswith("../"):
            raise ValueError(
                f"{file}: {source} is not below the folder of the videos, {root or '.'!r}"
            )
        if not name.lower().endswith(".mp4"):
            name += ".mp4"
        text = entry.text.replace(entry.path, name, 1)
        lines.append((with_suffix(source), str(out / name), text))
    return lines


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

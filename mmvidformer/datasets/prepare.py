"""Preparation of a dataset: its videos re-encoded once, and its annotation files rewritten."""

import json
import os
import random
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from mmvidformer.datasets.decoding.check_files import find_faults, read_entries, write_report
from mmvidformer.datasets.decoding.encode import Encoding, encode_video
from mmvidformer.datasets.decoding.errors import with_suffix

SETTINGS = "prepared.json"
# Number of videos from which time and size are estimated, per process.
SAMPLE = 4


def prepare_dataset(
    ann_files: Sequence[str | Path],
    out: str | Path,
    encoding: Encoding,
    root: str | Path = "",
    workers: int = 4,
    time_limit: float = 3600.0,
    estimate: bool = False,
    delimiter: str = " ",
) -> int:
    """Re-encode the videos of annotation files, and write these files for the results.

    A few videos of all sizes come first, to estimate time and size of all. Videos that exist in
    ``out`` are skipped, so a run may be repeated, and several machines may fill one folder.

    Args:
        ann_files: Lists of videos.
        out: Folder of the results. Videos have the paths there that they have below ``root``, and
            those of other formats end with ``.mp4`` in addition. Annotation files keep their names,
            without the lines of bad videos, which ``<name>_bad.csv`` lists.
        encoding: How videos are re-encoded.
        root: Folder of the videos.
        workers: Number of processes, with one thread each.
        time_limit: Seconds for one video.
        estimate: Whether to stop after the estimate.
        delimiter: Delimiter of the columns of the lists.

    Returns:
        The number of bad videos.

    Raises:
        ValueError: If an annotation file cannot be prepared, or ``out`` has other settings.
        FileExistsError: If ``out`` has other files.
    """
    out = Path(out)
    lists = {Path(file): _plan(Path(file), out, root, delimiter) for file in ann_files}
    names = [file.stem for file in lists]
    if len({*names}) < len(names):
        raise ValueError(f"annotation files must have different names, got {names}")
    infos = {info["target"]: info for entries in lists.values() for _, info in entries}
    _claim(out, {"root": os.path.abspath(root), **asdict(encoding)})

    sizes = {target: _size(info["filename"]) for target, info in infos.items()}
    todo = sorted((one for one in infos if not os.path.exists(one)), key=sizes.__getitem__)
    print(f"{len(infos)} videos, {len(infos) - len(todo)} of them already prepared")

    def encode(targets: Sequence[str]) -> dict[str, str]:
        read = partial(encode_video, encoding=encoding)
        return find_faults(read, [infos[one] for one in targets], workers, time_limit)

    every, start = max(1, len(todo) // (SAMPLE * max(1, workers))), time.monotonic()
    sample = todo[every // 2 :: every]
    rest = [*{*todo} - {*sample}]
    random.Random().shuffle(rest)  # machines that fill one folder begin with different videos
    faults = encode(sample)
    if rest:
        ratio = sum(sizes[one] for one in rest) / max(1, sum(sizes[one] for one in sample))
        hours = ratio * (time.monotonic() - start) / 3600
        size, free = ratio * sum(map(_size, sample)) / 1e9, shutil.disk_usage(out).free / 1e9
        print(
            f"estimate for the other {len(rest)} videos: {hours:.2g} hours with {workers} "
            f"processes, {size:.3g} GB ({free:.3g} GB are free)"
        )
        if estimate:
            return len(faults)
        faults |= encode(rest)

    for leftover in out.rglob(".*.part"):  # of runs that were killed
        leftover.unlink(missing_ok=True)
    for file, entries in lists.items():
        write_report(file, out, entries, faults, ending="")
    good = [one for one in infos if infos[one]["filename"] not in faults]
    before, after = sum(sizes[one] for one in good), sum(map(_size, good))
    print(f"{len(good)} videos in {out}: {before / 1e9:.3g} GB -> {after / 1e9:.3g} GB")
    if faults:
        print(f"{len(faults)} videos are bad: see {out / '*_bad.csv'}")
    return len(faults)


def _plan(
    file: Path, out: Path, root: str | Path, delimiter: str
) -> list[tuple[str, dict[str, str]]]:
    """Return the lines of a list as they will be, and the argument of ``encode_video``."""
    entries: list[tuple[str, dict[str, str]]] = []
    for text, info in read_entries(file, root, delimiter):
        if "frame_dir" in info:
            raise ValueError(f"{file} lists folders of frames; only videos can be prepared")
        source = info["filename"]
        name = Path(os.path.relpath(source, root or ".")).as_posix()
        if name.startswith("../"):
            raise ValueError(
                f"{file}: {source} is not below the folder of the videos, {root or '.'!r}"
            )
        if not name.lower().endswith(".mp4"):
            name += ".mp4"
        text = text.replace(text.strip().split(delimiter)[0], name, 1)
        entries.append((text, {"filename": with_suffix(source), "target": str(out / name)}))
    return entries


def _claim(out: Path, settings: Mapping[str, object]) -> None:
    """Record the settings in a new folder, or compare them with its record."""
    file = out / SETTINGS
    if not file.exists():
        if out.exists() and any(path.suffix != ".part" for path in out.iterdir()):
            raise FileExistsError(f"{out} has files that were not prepared; choose a new folder")
        out.mkdir(parents=True, exist_ok=True)
        part = out / f".{SETTINGS}.{os.getpid()}.part"
        part.write_text(json.dumps(settings, indent=1), encoding="utf-8")
        os.replace(part, file)
    for name, before in json.loads(file.read_text("utf-8")).items():
        now = settings.get(name)
        if now != before:
            raise ValueError(f"{out} was prepared with {name}={before}, got {now}; choose another")


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0

"""Writing shards."""

import io
import json
import math
import tarfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from os.path import splitext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from mmvidformer.data.shards import index as shards
from mmvidformer.data.shards.notes import (
    Place,
    check_own,
    digest_of,
    read_note,
    remove_notes,
    remove_shards,
    write_note,
)
from mmvidformer.data.shards.rows import write_row
from mmvidformer.errors import FileThere, UserError
from mmvidformer.storage.files import exists, file_status, join, read_range, remove, write_to
from mmvidformer.storage.resuming import hold
from mmvidformer.video.errors import BadVideo, with_suffix
from mmvidformer.video.index import index_of
from mmvidformer.video.packed_index import pack_index
from mmvidformer.video.processes import clean_context


class _Sample(NamedTuple):
    """A sample: the number of its video, its row, and its class, -1 if it has none or several."""

    video: int
    row: str
    label: int


def write_shards(
    samples: Iterable[Mapping[str, Any]],
    out: str | Path,
    facts: Mapping[str, Any],
    videos_per_shard: int = 1000,
    workers: int = 1,
    force: bool = False,
) -> dict[str, str]:
    """Write the videos of a list and its index.

    A video that several samples show is written once. One that is missing, or whose frames cannot
    be listed, keeps its samples, so that the policy for bad videos is that of files. If there is no
    index, shards of an interrupted call are kept, unless their list or a video has changed.

    Args:
        samples: Samples of a dataset: ``filename``, what its rows say, and ``path`` if the file is
            elsewhere. ``filename`` is what messages name.
        out: Folder or address to write to.
        facts: ``task``, ``classes``, and perhaps ``metainfo`` (a row) for ``index.json``.
        videos_per_shard: Number of videos in a tar file.
        workers: Number of processes, each of which writes a shard at a time.
        force: Whether to overwrite an index, whose shards are deleted first, and other files.

    Returns:
        The bad videos by path, with the reason.

    Raises:
        FileExistsError: If another process writes there; if there is an index, or a file of the
            same name as one to write that neither an index nor an interrupted call explains, and
            not ``force``.
        OSError: If a file cannot be written.
        TypeError: If a row holds what JSON cannot.
        UserError: If there are no samples, no video of them exists, or the index is not of shards.
    """
    index = join(out, shards.INDEX)
    if exists(index) and not force:
        raise FileThere(f"{index} exists already; --force overwrites it")
    paths, rows = _read_samples(samples)
    if not rows:
        raise UserError("there are no samples to write")
    if not any(exists(path) for path in paths):
        raise UserError(f"no video of the list exists, such as {paths[0]}")
    rows_of_video: list[list[_Sample]] = [[] for _ in paths]
    for row in rows:
        rows_of_video[row.video].append(row)
    count = math.ceil(len(paths) / videos_per_shard)
    with hold(out):
        if not force:
            check_own(str(out), count)
        remove_shards(str(out), first=count)
        for name in (shards.SAMPLES, shards.ROWS, shards.FRAMES, shards.INDEX):
            remove(join(out, name))
        jobs = []
        for first in range(0, len(paths), videos_per_shard):
            chosen = slice(first, first + videos_per_shard)
            jobs.append((first // videos_per_shard, first, paths[chosen], rows_of_video[chosen]))
        places = _write_all(partial(_write_shard, str(out)), jobs, workers)
        table, frames = _sample_table(rows, places, videos_per_shard)
        _write_index(out, table, rows, frames, {**facts, "shards": len(jobs), "videos": len(paths)})
        remove_notes(str(out), [shards.shard_name(number) for number in range(len(jobs))])
    return {path: place.fault for path, place in zip(paths, places, strict=True) if place.fault}


def _read_samples(samples: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[_Sample]]:
    """Return the paths of the videos in the order in which they come first, and the samples."""
    numbers: dict[str, int] = {}
    rows = []
    for sample in samples:
        row = dict(sample)
        path = with_suffix(str(row.pop("path", row["filename"])))
        label = shards.NO_LABEL
        if isinstance(row.get("label"), int | np.integer):
            label = int(row.pop("label"))
        if label == shards.NO_LABEL and "label" in sample:
            row["label"] = sample["label"]  # several, or MMAction2's number of no class
        rows.append(_Sample(numbers.setdefault(path, len(numbers)), write_row(row), label))
    return list(numbers), rows


def _write_all(write: partial, jobs: Sequence[tuple], workers: int) -> list[Place]:
    """Write all shards, and return the places of their videos in order."""
    places: list[Place] = []
    if workers < 2:
        for job in tqdm(jobs, unit="shard", disable=None):
            places += write(job)
        return places
    with ProcessPoolExecutor(workers, mp_context=clean_context()) as pool:
        for of_shard in tqdm(pool.map(write, jobs), total=len(jobs), unit="shard", disable=None):
            places += of_shard
    return places


def _write_shard(
    out: str, job: tuple[int, int, Sequence[str], Sequence[Sequence[_Sample]]]
) -> list[Place]:
    """Write a shard, unless it is there already, and return where its videos are.

    Args:
        out: Folder or address.
        job: Number of the shard, that of its first video, paths of the videos, and their rows.
    """
    number, first, paths, rows_of_video = job
    name = shards.shard_name(number)
    digest = digest_of(paths, [str(tuple(row)) for rows in rows_of_video for row in rows])
    known_places = read_note(out, name, digest, paths)
    if known_places is not None:
        return known_places
    places = []
    with (
        write_to(join(out, name)) as file,
        tarfile.open(file, "w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for key, (path, rows) in enumerate(zip(paths, rows_of_video, strict=True), first):
            content, place = _read_video(path)
            if content:
                suffix = splitext(path)[1].lower() or ".mp4"
                offset = _add_member(tar, f"{key:09d}{suffix}", content)
                place = place._replace(offset=offset)
                _add_member(tar, f"{key:09d}.json", _describe(rows))
                labels = {row.label for row in rows}
                if len(labels) == 1 and labels != {shards.NO_LABEL}:
                    _add_member(tar, f"{key:09d}.cls", str(labels.pop()).encode())
            places.append(place)
    write_note(out, name, digest, places)
    return places


def _read_video(path: str) -> tuple[bytes, Place]:
    """Return the content of a file, and its place, which has no offset yet."""
    try:
        status = file_status(path)
        content = read_range(path, 0, status.size)
    except FileNotFoundError:
        return b"", Place(fault="does not exist")
    place = Place(size=status.size, version=status.version)
    if not content:
        return content, place._replace(fault="is empty")
    try:
        frames = pack_index(index_of(io.BytesIO(content)))
    except BadVideo as error:  # training says it, too
        return content, place._replace(fault=error.reason)
    return content, place._replace(frames=frames)


def _describe(rows: Sequence[_Sample]) -> bytes:
    """Return the JSON of a video: its row, or the list of its rows."""
    described = []
    for sample in rows:
        row = json.loads(sample.row)
        if sample.label != shards.NO_LABEL:
            row["label"] = sample.label
        described.append(row)
    content = described[0] if len(described) == 1 else {"samples": described}
    return json.dumps(content, ensure_ascii=False).encode()


def _add_member(tar: tarfile.TarFile, name: str, content: bytes) -> int:
    """Add a file to a tar file, and return the place of its content."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    offset = tar.offset + tarfile.BLOCKSIZE  # names are short, so a header has one block
    tar.addfile(member, io.BytesIO(content))
    return offset


def _sample_table(
    rows: Sequence[_Sample], places: Sequence[Place], videos_per_shard: int
) -> tuple[np.ndarray, bytes]:
    """Return the table of the samples, and what is known of the frames of all videos."""
    video = np.array([row.video for row in rows])
    row_sizes = np.array([len(row.row.encode()) for row in rows])
    frames_sizes = np.array([len(place.frames) for place in places])
    table = np.zeros(len(rows), shards.SAMPLE)
    table["shard"] = video // videos_per_shard
    table["offset"] = np.array([place.offset for place in places])[video]
    table["size"] = np.array([place.size for place in places])[video]
    table["label"] = [row.label for row in rows]
    table["row"] = np.cumsum(row_sizes + 1) - row_sizes - 1  # after each is a line break
    table["row_size"] = row_sizes
    table["frames"] = (np.cumsum(frames_sizes) - frames_sizes)[video]
    table["frames_size"] = frames_sizes[video]
    return table, b"".join(place.frames for place in places)


def _write_index(
    out: str | Path,
    table: np.ndarray,
    rows: Sequence[_Sample],
    frames: bytes,
    facts: Mapping[str, Any],
) -> None:
    """Write the files of the index; the last one says that the shards are complete."""
    with write_to(join(out, shards.SAMPLES)) as path, path.open("wb") as file:
        np.save(file, table, allow_pickle=False)
    with (
        write_to(join(out, shards.ROWS)) as path,
        path.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(f"{row.row}\n" for row in rows)
    with write_to(join(out, shards.FRAMES)) as path:
        path.write_bytes(frames)
    known = dict(format=shards.FORMAT, id=uuid.uuid4().hex, samples=len(table))
    with write_to(join(out, shards.INDEX)) as path:
        path.write_text(json.dumps({**known, **facts}, indent=1, ensure_ascii=False), "utf-8")

"""Notes of the shards that are written, by which an interrupted command goes on."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from mmvidformer.data.shards.index import FRAMES, INDEX, ROWS, SAMPLES, read_facts, shard_name
from mmvidformer.errors import FileThere
from mmvidformer.storage.files import (
    exists,
    file_status,
    join,
    list_files,
    read_file,
    remove,
    write_file,
)

THREADS = 16  # that ask at once whether videos have changed


class Place(NamedTuple):
    """Where a video is in its shard, and what is known of it.

    Attributes:
        offset: First byte of the file.
        size: Its bytes; 0 if it is missing.
        version: Its ``FileStatus.version`` when it was read; empty if it was missing.
        frames: Its packed index.
        fault: Why it cannot be read, if so.
    """

    offset: int = 0
    size: int = 0
    version: str = ""
    frames: bytes = b""
    fault: str = ""


def digest_of(paths: Sequence[str], rows: Iterable[str]) -> str:
    """Return a text that changes with the paths of a shard's videos and what the list says."""
    digest = hashlib.sha256()
    for line in (*paths, *rows):
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()


def read_note(out: str, shard: str, digest: str, paths: Sequence[str]) -> list[Place] | None:
    """Return the places of the videos of a shard; None if it must be written (again).

    Args:
        out: Folder or address of the shards.
        shard: Name of the shard.
        digest: Of its list (``digest_of``).
        paths: Its videos, which must not have changed.
    """
    try:
        note = json.loads(read_file(_note_of(out, shard)))
    except FileNotFoundError:
        return None
    if note["digest"] != digest or not exists(join(out, shard)):
        return None
    with ThreadPoolExecutor(THREADS) as pool:
        versions = list(pool.map(_version_of, paths))
    places = [
        Place(*row, base64.b64decode(frames), fault) for *row, frames, fault in note["places"]
    ]
    return places if versions == [place.version for place in places] else None


def write_note(out: str, shard: str, digest: str, places: Iterable[Place]) -> None:
    """Note that a shard is complete."""
    rows = [(*row, base64.b64encode(frames).decode(), fault) for *row, frames, fault in places]
    content = json.dumps(dict(digest=digest, places=rows), ensure_ascii=False)
    write_file(_note_of(out, shard), content.encode())


def remove_notes(out: str, shards: Iterable[str]) -> None:
    """Delete the notes of shards, which an index replaces."""
    for shard in shards:
        remove(_note_of(out, shard))


def remove_shards(out: str, first: int) -> None:
    """Delete the shards that an index names, and of an interrupted call those from ``first`` on.

    Other files stay. After it, all shards of the folder have a note.

    Raises:
        WrongShards: If the index is not of shards.
    """
    numbers = set[int]()
    if exists(join(out, INDEX)):
        numbers.update(range(read_facts(out)["shards"]))
    for file in list_files(out):
        note = re.fullmatch(r"(\d{5,})\.tar\.note\.json", file)
        if note and int(note[1]) >= first:
            numbers.add(int(note[1]))
    for number in numbers:
        remove(join(out, shard_name(number)))
        remove(_note_of(out, shard_name(number)))


def check_own(out: str, count: int) -> None:
    """Check that files named as shards and tables are ours: an index or a note says so.

    ``count`` is the number of shards.

    Raises:
        FileExistsError: If neither is there.
    """
    files = list_files(out)
    names = {SAMPLES, ROWS, FRAMES, *map(shard_name, range(count))}
    others = [file for file in files if file in names]
    has_notes = any(re.fullmatch(r"\d{5,}\.tar\.note\.json", file) for file in files)
    if others and not has_notes and INDEX not in files:
        place = join(out, others[0])
        raise FileThere(f"{place} exists, and no index says whose it is; --force replaces it")


def _note_of(out: str, shard: str) -> str:
    return join(out, f"{shard}.note.json")


def _version_of(path: str) -> str:
    try:
        return file_status(path).version
    except FileNotFoundError:
        return ""

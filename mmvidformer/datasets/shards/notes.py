"""Notes of the shards that are written, by which an interrupted command goes on."""

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mmvidformer.storage.files import exists, is_remote, join, read_file, remove, write_file


class Place(NamedTuple):
    """Where a video is in its shard, its packed index, and why it cannot be read, if so."""

    offset: int = 0
    size: int = 0
    frames: bytes = b""
    fault: str = ""


def digest_of(paths: Sequence[str], rows: Iterable[str]) -> str:
    """Return a text that changes with the videos of a shard and what their list says of them.

    Remote files are told apart by their addresses alone.
    """
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path}\n{_version_of(path)}\n".encode())
    for row in rows:
        digest.update(f"{row}\n".encode())
    return digest.hexdigest()


def read_note(out: str, shard: str, digest: str) -> list[Place] | None:
    """Return the places of the videos of a shard; None if it must be written (again)."""
    try:
        note = json.loads(read_file(_note_of(out, shard)))
    except FileNotFoundError:
        return None
    if note["digest"] != digest or not exists(join(out, shard)):
        return None
    return [
        Place(offset, size, base64.b64decode(frames), fault)
        for offset, size, frames, fault in note["places"]
    ]


def write_note(out: str, shard: str, digest: str, places: Iterable[Place]) -> None:
    """Note that a shard is complete."""
    rows = [
        (place.offset, place.size, base64.b64encode(place.frames).decode(), place.fault)
        for place in places
    ]
    content = json.dumps(dict(digest=digest, places=rows), ensure_ascii=False)
    write_file(_note_of(out, shard), content.encode())


def remove_notes(out: str, shards: Iterable[str]) -> None:
    """Delete the notes of shards, which an index replaces."""
    for shard in shards:
        remove(_note_of(out, shard))


def _note_of(out: str, shard: str) -> str:
    return join(out, f"{shard}.note.json")


def _version_of(path: str) -> str:
    if is_remote(path):
        return ""
    try:
        status = os.stat(path)
    except OSError:
        return "missing"
    return f"{status.st_size} {status.st_mtime_ns}"

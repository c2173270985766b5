"""Reading and writing where storage is remote, on fsspec's storage in memory."""

import os
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pytest
import torch
from mmengine.runner import CheckpointLoader

from mmvidformer.checkpoints.download import fetch
from mmvidformer.errors import UserError
from mmvidformer.storage import cache as caches
from mmvidformer.storage import files, range_file
from mmvidformer.storage.cache import NodeCache, local_copy, read_cached
from mmvidformer.storage.errors import StorageError
from mmvidformer.storage.files import exists, is_remote, join, read_file, read_json, read_range
from mmvidformer.storage.range_file import RangeFile
from mmvidformer.video.errors import BadVideo
from mmvidformer.video.video import Video
from tests.video.toys import write


@pytest.fixture
def memory():
    """A file system in memory, which is empty."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    files._file_system.cache_clear()
    yield system
    system.store.clear()


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """Seconds that a process would have waited."""
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    return waited


@pytest.mark.parametrize(
    ("path", "remote"),
    [
        ("s3://b/x", True),
        ("https://h/x", True),
        ("/a/b", False),
        ("hf://org/name", False),
        ("rtsp://camera", False),
        ("C://x", False),
    ],
)
def test_addresses_are_told_from_paths(path, remote) -> None:
    assert is_remote(path) == remote
    assert join(path, "a", "b").replace("\\", "/") == f"{path}/a/b"


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize("remote", [False, True])
def test_parts_of_files_are_read(memory, tmp_path, remote) -> None:
    path = "memory://d/x.bin" if remote else str(tmp_path / "x.bin")
    assert not exists(path)
    with pytest.raises(FileNotFoundError):
        read_file(path)
    local = tmp_path / "x.bin"
    local.write_bytes(bytes(range(100)))
    if remote:
        files.upload(local, path)
    assert exists(path) and files.file_size(path) == 100
    assert read_file(path) == bytes(range(100))
    assert read_range(path, 90, 10) == bytes(range(90, 100))
    assert read_range(path, 5, 0) == b""
    with pytest.raises(StorageError if remote else ValueError):
        read_range(path, 90, 11)


@pytest.mark.parametrize("failures", [0, 1, 2, 3])
def test_three_tries_with_growing_pauses(pauses, failures) -> None:
    left = [OSError("503 slow down")] * failures

    def read() -> int:
        if left:
            raise left.pop()
        return 7

    if failures < 3:
        assert files.try_thrice("s3://b/x", read) == 7
    else:
        with pytest.raises(UserError, match="s3://b/x: 3 tries failed, .* OSError: 503 slow down"):
            files.try_thrice("s3://b/x", read)
    assert pauses == [1.0, 4.0][:failures]


@pytest.mark.parametrize(
    ("error", "wanted", "text"),
    [
        (FileNotFoundError("x"), FileNotFoundError, "s3://b/x does not exist"),
        (PermissionError("Forbidden"), StorageError, r"access is denied .*Forbidden"),
        (ImportError("s3fs"), StorageError, r"pip install 'mmvidformer\[s3\]'"),
    ],
)
def test_an_answer_is_not_asked_again(pauses, error, wanted, text) -> None:
    def read() -> None:
        raise error

    with pytest.raises(wanted, match=text):
        files.try_thrice("s3://b/x", read)
    assert pauses == []


def test_a_remote_video_is_read_where_it_is_asked_for(memory, tmp_path, monkeypatch) -> None:
    path = tmp_path / "long.mp4"
    write(path, 400, size=(160, 120), codec="mpeg4")
    files.upload(path, "memory://long.mp4")
    size, read = path.stat().st_size, []
    monkeypatch.setattr(range_file, "BLOCK", 1 << 14)
    real = files._read_remote
    monkeypatch.setattr(files, "_read_remote", lambda *place: read.append(place[2]) or real(*place))
    with RangeFile.open("memory://long.mp4") as file:
        video = Video.open(file)
        wanted = Video.open(str(path)).frames([350, 360])
        assert np.array_equal(video.frames([350, 360]), wanted)
    assert size > 400_000 and sum(read) < size


def test_the_cache_is_bounded_and_keeps_what_was_read_last(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(caches, "TRIM_EVERY", 1 << 60)
    cache = NodeCache(tmp_path / "ranges", 1000)
    for number in range(12):
        cache.write(str(number), bytes([number]) * 100)
    paths = {number: cache._path(str(number)) for number in range(12)}
    for number in range(12):
        os.utime(paths[number], (number, number))
    assert cache.read("0", 100) == bytes(100)  # now it was read last
    assert cache.read("11", 99) is None and cache.read("none", 1) is None
    cache.trim()
    left = {number for number, path in paths.items() if path.exists()}
    assert sum(paths[number].stat().st_size for number in left) <= 900
    assert 0 in left and 11 in left and 1 not in left
    cache.write("large", bytes(1001))
    assert cache.read("large", 1001) is None


def test_a_range_is_fetched_once_and_a_new_version_again(memory, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(caches.FOLDER, str(tmp_path / "cache"))
    memory.pipe_file("/s.tar", bytes(range(50)))
    calls = []
    real = caches.read_range
    monkeypatch.setattr(caches, "read_range", lambda *place: calls.append(place) or real(*place))
    for version in ("1", "1", "2"):
        assert read_cached("memory://s.tar", 10, 5, version) == bytes(range(10, 15))
    assert len(calls) == 2
    monkeypatch.setenv(caches.GIGABYTES, "0")
    read_cached("memory://s.tar", 20, 5, "1")
    read_cached("memory://s.tar", 20, 5, "1")
    assert len(calls) == 4
    monkeypatch.setenv(caches.GIGABYTES, "many")
    with pytest.raises(ValueError, match="MMVIDFORMER_CACHE_GB must be a number, got 'many'"):
        read_cached("memory://s.tar", 20, 5, "1")


def test_a_copy_is_fetched_again_when_the_file_changes(memory, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(caches.FOLDER, str(tmp_path / "cache"))
    memory.pipe_file("/index.npy", b"one")
    first = local_copy("memory://index.npy")
    assert first.read_bytes() == b"one" and local_copy("memory://index.npy") == first
    memory.pipe_file("/index.npy", b"three")
    assert local_copy("memory://index.npy").read_bytes() == b"three"
    assert local_copy(str(first)) == first


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_copies_count_and_are_deleted(memory, tmp_path, monkeypatch) -> None:
    """Of one address only the last one is kept, of others those that were read last."""
    monkeypatch.setenv(caches.FOLDER, str(tmp_path / "cache"))
    monkeypatch.setenv(caches.GIGABYTES, "0.001")
    for number in range(4):
        memory.pipe_file("/list.csv", bytes([number]) * 2_000_000)
        assert local_copy("memory://list.csv").read_bytes()[0] == number
        assert size_of(tmp_path) == 2_000_000
    copies = []
    for number in range(6):
        memory.pipe_file(f"/{number}.csv", bytes(400_000))
        copies.append(local_copy(f"memory://{number}.csv"))
        assert copies[-1].exists()
        os.utime(copies[-1], (number, number))  # it was read long ago
    assert size_of(tmp_path) - 2_000_000 <= 1_000_000 + 400_000
    assert not copies[0].exists() and local_copy("memory://0.csv").exists()


@pytest.mark.parametrize("gigabytes", ["0", "0.000001"])
def test_a_process_leaves_no_copy_larger_than_the_cache(gigabytes, tmp_path) -> None:
    code = """
import fsspec
from mmvidformer.storage.cache import local_copy
fsspec.filesystem("memory").pipe_file("/a.csv", bytes(5000))
print(local_copy("memory://a.csv").stat().st_size)
"""
    env = {**os.environ, caches.FOLDER: str(tmp_path), caches.GIGABYTES: gigabytes}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert run.stdout == "5000\n", run.stderr
    assert size_of(tmp_path) == 0


def test_damage_is_no_fault_of_storage(memory) -> None:
    memory.pipe_file("/bad.mp4", b"no video" * 100)
    with RangeFile.open("memory://bad.mp4") as file, pytest.raises(BadVideo):
        Video.open(file)


def test_checkpoints_are_read_from_object_storage(memory, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(caches.FOLDER, str(tmp_path / "cache"))
    torch.save({"state_dict": {"x": torch.arange(3)}}, tmp_path / "a.pth")
    files.upload(tmp_path / "a.pth", "memory://run/epoch_1.pth")
    content = CheckpointLoader.load_checkpoint("memory://run/epoch_1.pth", map_location="cpu")
    assert content["state_dict"]["x"].tolist() == [0, 1, 2]
    assert fetch("memory://run/epoch_1.pth").name == "epoch_1.pth"
    with pytest.raises(FileNotFoundError, match="memory://run/gone.pth does not exist"):
        fetch("memory://run/gone.pth")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value"),
        (b'{"a": 1', "Expecting"),
        (b"\xff{}", "codec"),
        (b"[]", "got a list"),
    ],
)
def test_damaged_json_is_named(content: bytes, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(content)
    with pytest.raises(UserError, match=rf"result.json must have a JSON object.*{reason}"):
        read_json(file)
    file.write_text('{"a": [1]}')
    assert read_json(file) == {"a": [1]}
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "gone.json")

"""Writing of shards that is interrupted, and repeated."""

import json
import shutil
from pathlib import Path

import fsspec
import pytest

from mmvidformer.data.shards import write as writing
from mmvidformer.data.shards.index import INDEX, WrongShards
from mmvidformer.storage import files
from mmvidformer.storage.files import list_files, read_file
from mmvidformer.tasks.shards import shard_list
from tests.video.toys import write


class Killed(BaseException):
    """What ends a process."""


@pytest.fixture
def videos(tmp_path):
    """A list of five videos, one of which is missing; three shards of two."""
    root = tmp_path / "videos"
    root.mkdir()
    for number in (0, 1, 2, 4):
        write(root / f"{number}.mp4", 4 + number)
    (root / "train.txt").write_text("".join(f"{number}.mp4 {number}\n" for number in range(5)))
    return root


@pytest.fixture
def read(monkeypatch):
    """Paths of the videos that are read; a number of them is read before the process ends."""
    paths = []

    def read_video(path):
        if len(paths) == read_video.limit:
            raise Killed
        paths.append(path.rpartition("/")[2])
        return original(path)

    original, read_video.limit, read_video.paths = writing._read_video, -1, paths
    monkeypatch.setattr(writing, "_read_video", read_video)
    return read_video


@pytest.fixture(params=["folder", "storage"])
def out(request, tmp_path):
    """Where shards are written to."""
    if request.param == "folder":
        yield str(tmp_path / "out")
        return
    system = fsspec.filesystem("memory")
    system.store.clear()
    files._file_system.cache_clear()
    yield "memory://out"
    system.store.clear()


def contents(out: str) -> dict[str, bytes]:
    """The files of shards; the index without its id, which is drawn."""
    names = list_files(out) if "://" in out else [path.name for path in Path(out).iterdir()]
    by_name = {name: read_file(f"{out}/{name}") for name in names}
    facts = json.loads(by_name.pop(INDEX))
    return {**by_name, INDEX: json.dumps({**facts, "id": ""}).encode()}


def write_all(videos, out: str, **options):
    return shard_list(videos / "train.txt", out, videos_per_shard=2, **options)


def test_what_is_written_is_kept(videos, out, read) -> None:
    faults = write_all(videos, str(videos.parent / "whole"))
    whole = contents(str(videos.parent / "whole"))
    read.paths.clear()
    read.limit = 3  # in the second shard
    with pytest.raises(Killed):
        write_all(videos, out)
    read.paths.clear()
    read.limit = -1
    assert write_all(videos, out) == faults and len(faults) == 1
    assert read.paths == ["2.mp4", "3.mp4", "4.mp4"]
    assert contents(out) == whole
    assert not any("note" in name for name in whole)


@pytest.mark.parametrize("change", ["label", "video", "shard"])
def test_what_has_changed_is_written_again(videos, tmp_path, read, change) -> None:
    out = tmp_path / "out"
    read.limit = 4
    with pytest.raises(Killed):
        write_all(videos, str(out))
    if change == "label":
        text = (videos / "train.txt").read_text()
        (videos / "train.txt").write_text(text.replace("1.mp4 1", "1.mp4 3"))
    elif change == "video":
        write(videos / "1.mp4", 9)
    else:
        (out / "00000.tar").unlink()
    read.paths.clear()
    read.limit = -1
    write_all(videos, str(out))
    assert read.paths == ["0.mp4", "1.mp4", "4.mp4"]
    again = contents(str(out))
    shutil.rmtree(out)
    write_all(videos, str(out))
    assert contents(str(out)) == again


def test_while_shards_are_overwritten_there_is_no_index(videos, out, read) -> None:
    write_all(videos, out)
    read.paths.clear()
    read.limit = 1
    with pytest.raises(Killed):
        write_all(videos, out, force=True)
    assert not files.exists(f"{out}/{INDEX}")
    read.limit = -1
    write_all(videos, out)
    assert files.exists(f"{out}/{INDEX}")


def tars_of(out: str) -> list[str]:
    return [name for name in list_files(out) if name.endswith(".tar")]


def test_no_shard_of_an_earlier_list_is_left(videos, out, read) -> None:
    """Also if a call in between was interrupted; other files stay."""
    write_all(videos, out)
    assert tars_of(out) == ["00000.tar", "00001.tar", "00002.tar"]
    files.write_file(f"{out}/00009.tar", b"of the user")
    read.paths.clear()
    read.limit = 1
    with pytest.raises(Killed):
        write_all(videos, out, force=True)
    assert tars_of(out) == ["00009.tar"]
    read.limit = -1
    (videos / "train.txt").write_text("0.mp4 0\n")
    write_all(videos, out)
    assert tars_of(out) == ["00000.tar", "00009.tar"]


def test_an_interrupted_longer_list_leaves_no_shard(videos, out, read) -> None:
    read.limit = 4
    with pytest.raises(Killed):
        write_all(videos, out)
    assert tars_of(out) == ["00000.tar", "00001.tar"]
    read.limit = -1
    (videos / "train.txt").write_text("0.mp4 0\n1.mp4 1\n")
    write_all(videos, out)
    assert tars_of(out) == ["00000.tar"] and not any("note" in name for name in list_files(out))


def test_an_index_of_others_is_not_overwritten(videos, tmp_path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / INDEX).write_text('{"name": "my page"}')
    with pytest.raises(WrongShards, match="index.json is no index of shards"):
        write_all(videos, str(tmp_path / "out"), force=True)
    assert (tmp_path / "out" / INDEX).read_text() == '{"name": "my page"}'


@pytest.mark.parametrize("name", ["00000.tar", "rows.jsonl"])
def test_files_of_others_are_not_overwritten(videos, tmp_path, name) -> None:
    (tmp_path / name).write_text("of others")
    with pytest.raises(FileExistsError, match=f"{name} exists, and no index says whose it is"):
        shard_list(videos / "train.txt", tmp_path)
    assert (tmp_path / name).read_text() == "of others"
    shard_list(videos / "train.txt", tmp_path, force=True)
    assert (tmp_path / name).read_bytes() != b"of others"

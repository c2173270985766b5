"""Shards on a real S3 server, and on the web, with faults."""

import json
from functools import partialmethod

import numpy as np
import pytest
import torch

from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.data.listed_videos import ListedVideoDataset
from mmvidformer.data.shards import write as writing
from mmvidformer.data.shards.dataset import ShardedVideoDataset
from mmvidformer.data.shards.index import INDEX, ShardIndex
from mmvidformer.storage import files
from mmvidformer.storage.errors import StorageError
from mmvidformer.tasks.shards import shard_list
from mmvidformer.video.errors import BadVideo
from tests.storage_server import FAULTS
from tests.video.toys import PACK, write

pytestmark = pytest.mark.usefixtures("scope")

PIPELINE = [
    dict(type="mmvidformer.VideoInit"),
    dict(type="SampleFrames", clip_len=4, frame_interval=2),
    dict(type="mmvidformer.VideoDecode"),
    *PACK,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of the first test that needs shards, for all of them."""
    return tmp_path_factory.mktemp("shards")


@pytest.fixture
def shards(storage, folder):
    """The config of the files, and the address of their shards."""
    file, address = folder / "train.txt", f"s3://bucket/{folder.name}/train"
    if not file.exists():
        for number in range(3):
            write(folder / f"{number}.mp4")
        file.write_text("".join(f"{number}.mp4 {number}\n" for number in range(3)))
        assert shard_list(file, address, videos_per_shard=2) == {}
    return ListedVideoDataset(str(file), PIPELINE, dict(video=str(folder))), address


def inputs(dataset, number: int) -> torch.Tensor:
    """The frames of a sample, with fixed draws."""
    np.random.seed(0)
    return dataset[number]["inputs"]


def test_shards_in_a_bucket_are_the_files(shards, storage) -> None:
    local, address = shards
    dataset = ShardedVideoDataset(address, PIPELINE)
    storage.sent = 0
    for number in range(3):
        assert torch.equal(inputs(dataset, number), inputs(local, number))
    assert storage.sent == dataset.index.samples["size"].sum()  # nothing but the videos
    inputs(dataset, 0)
    assert storage.sent == dataset.index.samples["size"].sum()  # the second time from the cache
    with pytest.raises(FileExistsError, match="index.json exists already"):
        shard_list(local.ann_file, address)


def test_shards_on_the_web_are_the_files(shards, storage) -> None:
    local, address = shards
    web = address.replace("s3://", f"{storage.url}/")
    dataset = ShardedVideoDataset(web, PIPELINE)
    for number in range(3):
        assert torch.equal(inputs(dataset, number), inputs(local, number))


def test_lists_and_videos_in_a_bucket(shards, storage) -> None:
    """Files without shards, of which a part is read."""
    local, address = shards
    folder = address.rpartition("/")[0]
    for name in ("train.txt", "0.mp4", "1.mp4", "2.mp4"):
        files.upload(local.data_prefix["video"] + "/" + name, f"{folder}/{name}")
    dataset = ListedVideoDataset(f"{folder}/train.txt", PIPELINE, dict(video=folder))
    for number in range(3):
        assert torch.equal(inputs(dataset, number), inputs(local, number))


def test_a_list_and_videos_in_a_bucket_become_shards(
    shards, storage, tmp_path, monkeypatch
) -> None:
    """Also if the command is interrupted, and repeated."""

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    local, _ = shards
    folder = f"s3://bucket/{tmp_path.name}"
    for name in ("train.txt", "0.mp4", "1.mp4"):
        files.upload(local.data_prefix["video"] + "/" + name, f"{folder}/{name}")
    out = f"{folder}/packed"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(writing, "_write_index", stop)
        shard_list(f"{folder}/train.txt", out, videos_per_shard=1)
    (fault,) = shard_list(f"{folder}/train.txt", out, videos_per_shard=1).items()
    assert fault == (f"{folder}/2.mp4", "does not exist")
    files.upload(local.data_prefix["video"] + "/2.mp4", f"{folder}/2.mp4")
    assert shard_list(f"{folder}/train.txt", out, videos_per_shard=1, force=True) == {}
    dataset = ShardedVideoDataset(out, PIPELINE)
    for number in range(3):
        assert dataset.get_data_info(number)["filename"] == f"{number}.mp4"
        assert torch.equal(inputs(dataset, number), inputs(local, number))
    with pytest.raises(ValueError, match="boxes are of videos that are found by name in a folder"):
        shard_list(f"{folder}/train.csv", out, "boxes")


@pytest.mark.parametrize("web", [False, True], ids=["s3", "web"])
def test_a_remote_video_that_has_changed_is_packed_again(
    storage, tmp_path, monkeypatch, web
) -> None:
    """Between a command that was interrupted, and its repetition; its size is the same."""
    bucket = f"s3://bucket/{tmp_path.name}"
    versions = {}
    for number in range(4):
        write(tmp_path / f"{number}.mp4")
        content = (tmp_path / f"{number}.mp4").read_bytes()
        versions[number] = [content + b"\0\0\0\x10free" + bytes([end]) * 8 for end in range(2)]
        files.write_file(f"{bucket}/{number}.mp4", versions[number][0])
    (tmp_path / "train.txt").write_text("".join(f"{number}.mp4 0\n" for number in range(4)))
    root = bucket.replace("s3://", f"{storage.url}/") if web else bucket
    out, file = str(tmp_path / "out"), tmp_path / "train.txt"

    def interrupt(*_) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(writing, "_write_index", interrupt)
        shard_list(file, out, root=root, videos_per_shard=2)
    files.write_file(f"{bucket}/3.mp4", versions[3][1])
    packed, read_video = [], writing._read_video
    monkeypatch.setattr(
        writing, "_read_video", lambda path: packed.append(path[-5:]) or read_video(path)
    )
    storage.gets = 0
    assert shard_list(file, out, root=root, videos_per_shard=2) == {}
    assert packed == ["2.mp4", "3.mp4"] and storage.gets == 2
    wanted = [versions[0][0], versions[1][0], versions[2][0], versions[3][1]]
    assert [ShardIndex(out).read(number) for number in range(4)] == wanted


@pytest.mark.parametrize("web", [False, True], ids=["s3", "web"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_passing_fault_is_no_bad_video(shards, storage, monkeypatch, fault, web) -> None:
    local, address = shards
    address = address.replace("s3://", f"{storage.url}/") if web else address
    dataset = SafeDataset(ShardedVideoDataset(address, PIPELINE), on_bad_video="raise")
    if fault == "slow":
        monkeypatch.setattr(storage, "pause", 6)
        monkeypatch.setattr(files, "TIME_LIMIT", 2)
    storage.faults.extend([fault] * 2)
    assert torch.equal(inputs(dataset, 1), inputs(local, 1))
    assert not storage.faults


@pytest.mark.parametrize("web", [False, True], ids=["s3", "web"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_lasting_fault_ends_with_a_sentence(shards, storage, monkeypatch, fault, web) -> None:
    _, address = shards
    address = address.replace("s3://", f"{storage.url}/") if web else address
    dataset = SafeDataset(ShardedVideoDataset(address, PIPELINE), max_bad_share=1.0)
    if fault == "slow":
        monkeypatch.setattr(storage, "pause", 6)
        monkeypatch.setattr(files, "TIME_LIMIT", 0.5)
    storage.lasting, storage.gets = fault, 0
    with pytest.raises(StorageError, match=r"00000\.tar: 3 tries failed, the last by ") as caught:
        inputs(dataset, 0)
    assert "\n" not in str(caught.value)
    # aiohttp asks once more if a connection that it kept is gone.
    assert storage.gets in ((3, 6) if fault == "reset" else (3,))
    with pytest.raises(StorageError, match=INDEX):
        ShardedVideoDataset(address, PIPELINE)


def test_what_is_not_there_is_a_bad_video_or_no_index(shards, storage) -> None:
    local, address = shards
    with pytest.raises(FileNotFoundError, match=f"s3://bucket/none/{INDEX} does not exist"):
        ShardedVideoDataset("s3://bucket/none", PIPELINE)
    folder = address.rpartition("/")[0]
    dataset = ListedVideoDataset(local.ann_file, PIPELINE, dict(video=f"{folder}/gone"))
    with pytest.raises(BadVideo, match="gone/0.mp4: does not exist, or is no file$"):
        SafeDataset(dataset, on_bad_video="raise")[0]


def test_a_damaged_video_in_a_bucket_is_bad(storage, tmp_path) -> None:
    write(tmp_path / "0.mp4")
    content = (tmp_path / "0.mp4").read_bytes()
    (tmp_path / "0.mp4").write_bytes(content[:100] + bytes(len(content) - 100))
    (tmp_path / "train.txt").write_text("0.mp4 0\n")
    address = f"s3://bucket/{tmp_path.name}/train"
    assert len(shard_list(tmp_path / "train.txt", address)) == 1
    with pytest.raises(BadVideo, match="0.mp4: it is damaged"):
        SafeDataset(ShardedVideoDataset(address, PIPELINE), on_bad_video="raise")[0]


def test_a_file_in_several_parts_is_there_as_a_whole_or_not(storage, tmp_path, monkeypatch) -> None:
    """S3 puts together what is uploaded in parts, and keeps nothing of an upload that failed."""
    address, content = f"s3://bucket/{tmp_path.name}/epoch_1.pth", bytes(11 << 20)
    files.write_file(address, b"before")
    client = files._file_system_of(address)
    in_parts = partialmethod(type(client)._pipe_file, chunksize=5 << 20)  # in place of 50
    monkeypatch.setattr(type(client), "_pipe_file", in_parts)
    storage.methods, storage.lasting = {"PUT"}, "503"
    with pytest.raises(StorageError, match=r"epoch_1\.pth: 3 tries failed"):
        files.write_file(address, content)
    storage.reset()
    assert files.read_file(address) == b"before"
    assert not client.call_s3("list_multipart_uploads", Bucket="bucket").get("Uploads")
    files.write_file(address, content)
    assert files.read_file(address) == content
    assert '-3"' in files.file_status(address).version  # as S3 tags what it put together


def test_an_index_says_where_its_bytes_are(shards, storage) -> None:
    """A new index of other content has another id, so that a cache gives no old bytes."""
    local, address = shards
    before = json.loads(files.read_file(f"{address}/{INDEX}"))["id"]
    shard_list(local.ann_file, address, videos_per_shard=2, force=True)
    assert json.loads(files.read_file(f"{address}/{INDEX}"))["id"] != before

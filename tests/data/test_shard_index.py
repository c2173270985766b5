"""The files of shards: tar files, the index and its rows."""

import io
import json
import pickle
import tarfile

import numpy as np
import pytest
import torch

from mmvidformer.data.shards.dataset import ShardedVideoDataset
from mmvidformer.data.shards.index import ShardIndex, WrongShards
from mmvidformer.data.shards.rows import read_row, write_row
from mmvidformer.tasks.shards import shard_list
from mmvidformer.video.errors import BadVideo
from mmvidformer.video.index import Index, index_of
from mmvidformer.video.packed_index import pack_index, unpack_index
from mmvidformer.video.times import FrameTimes
from tests.data.shard_lists import PIPELINE, assert_equal, read
from tests.video.toys import write, write_clock

pytestmark = pytest.mark.usefixtures("scope")


def test_tar_files_are_those_of_webdataset(annotate, videos, tmp_path) -> None:
    file, _ = annotate("classes")
    shard_list(file, tmp_path / "out", videos_per_shard=2)
    with tarfile.open(tmp_path / "out" / "00000.tar") as tar:
        names = [f"{key:09d}.{end}" for key, end in ((0, "mp4"), (1, "mkv"))]
        assert tar.getnames() == [
            name for video in names for name in (video, f"{video[:9]}.json", f"{video[:9]}.cls")
        ]
        assert tar.extractfile(names[0]).read() == (videos / "a.mp4").read_bytes()
        index = ShardIndex(tmp_path / "out")
        places = {member.name: member.offset_data for member in tar.getmembers()}
        assert [places[name] for name in names] == index.samples["offset"][:2].tolist()
    webdataset = pytest.importorskip("webdataset", reason="the package webdataset is missing")
    pattern = str(tmp_path / "out" / "{00000..00001}.tar")
    samples = list(webdataset.WebDataset(pattern, shardshuffle=False).decode())
    assert [sample["cls"] for sample in samples] == [0, 2, 1] == index.labels.tolist()
    assert samples[1]["mkv"] == (videos / "deep" / "b.mkv").read_bytes()
    assert samples[1]["json"] == {"filename": "deep/b.mkv", "label": 2}


def test_a_worker_gets_an_address_whatever_the_length(annotate, tmp_path) -> None:
    file, _ = annotate("classes")
    file.write_text("a.mp4 0\n" * 5000)
    shard_list(file, tmp_path / "out")
    dataset = ShardedVideoDataset(str(tmp_path / "out"), PIPELINE)
    dataset[4999]
    copy = pickle.loads(content := pickle.dumps(dataset))
    assert len(content) < 4000 and len(copy) == 5000
    assert isinstance(copy.index.samples, np.memmap)
    assert_equal(read(copy, 7)["inputs"], read(dataset, 7)["inputs"])
    (video,) = (tmp_path / "out").glob("*.tar")
    assert video.stat().st_size < 1e6  # the video is there once


def test_times_that_number_no_frames_are_packed() -> None:
    """As those of AVI files with dropped frames."""
    times = np.array([0, 0.04, 0.2])
    copy = unpack_index(pack_index(Index(3, FrameTimes(25.0, times))), "a.avi")
    np.testing.assert_array_equal(copy.times.starts, times)
    assert copy.length == 3 and copy.stamps is None


@pytest.mark.parametrize("name", ["still.mp4", "vfr.mp4", "a.avi", "a.mkv", "a.ts", "b.mkv"])
def test_a_packed_index_is_the_index(tmp_path, name) -> None:
    path = tmp_path / name
    if name == "vfr.mp4":
        write_clock(path)
    else:
        write(path, 1 if name == "still.mp4" else 40)
    index = index_of(io.BytesIO(path.read_bytes()))
    copy = unpack_index(content := pack_index(index), name)
    assert copy.length == index.length and copy.times.rate == index.times.rate
    np.testing.assert_array_equal(copy.keys, index.keys)
    for got, wanted in ((copy.stamps, index.stamps), (copy.times.starts, index.times.starts)):
        assert (got is None) == (wanted is None)
        if wanted is not None:
            np.testing.assert_array_equal(got, wanted)
    assert len(content) < 120
    for end in (3, 30, len(content) - 9):
        with pytest.raises(BadVideo, match=f"{name}: its shard "):
            unpack_index(content[:end], name)


def test_rows_keep_types_and_bits_and_run_no_code() -> None:
    row = dict(
        filename="ä.mp4",
        spans=np.zeros((0, 3)),
        small=np.array([[0.1, 1e-45]], np.float32),
        label=torch.tensor([0.1, 2.0]),
        numbers=torch.tensor([1, 2]),
        background=-1,
        times=[0.1, None],
    )
    line = write_row(row)
    assert "\n" not in line
    assert_equal(read_row(line), row)
    with pytest.raises(TypeError, match="a row cannot hold .* object"):
        write_row(dict(x=object()))
    with pytest.raises(ValueError, match="cannot hold objects"):
        read_row('{"array": "|O", "shape": [1], "values": [1]}')


def test_wrong_shards_are_refused(annotate, tmp_path) -> None:
    file, _ = annotate("labels")
    out = tmp_path / "out"
    shard_list(file, out, "labels")
    with pytest.raises(FileExistsError, match="--force"):
        shard_list(file, out, "labels")
    for options, text in (
        (dict(task="number"), "rows of 'labels', not of 'number'"),
        (dict(metainfo=dict(classes=["x"])), "has 3 classes, such as red, .*, not the 1"),
    ):
        with pytest.raises(WrongShards, match=text):
            ShardedVideoDataset(str(out), PIPELINE, **options)
    for opener in (dict(type="DecordInit"), dict(type="mmvidformer.VideoInit", backend="decord")):
        with pytest.raises(WrongShards, match="opened by mmvidformer.VideoInit"):
            ShardedVideoDataset(str(out), [opener])
    with pytest.raises(FileNotFoundError):
        ShardedVideoDataset(str(tmp_path / "none"), PIPELINE)
    facts = json.loads((out / "index.json").read_text())
    for wrong, text in (
        ({**facts, "format": "x"}, "format 'x'"),
        ({"format": facts["format"]}, "KeyError"),
        ([], "TypeError"),
    ):
        (out / "index.json").write_text(json.dumps(wrong))
        with pytest.raises(WrongShards, match=text):
            ShardIndex(out)
    (out / "index.json").write_text(json.dumps({**facts, "samples": 4}))
    with pytest.raises(WrongShards, match="must have 4 samples"):
        len(ShardIndex(out).samples)
